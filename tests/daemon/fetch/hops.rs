//! Permitted targets of redirects, and the headers that are sent to them.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use http::{HeaderMap, HeaderValue};
use tidewatch::clock::Clock;
use tidewatch::config::params::FetchParams;
use tidewatch::fetch::error::FetchFault;
use tidewatch::fetch::request::FetchRequest;
use url::Url;

use super::{
    decoded, fetcher, follow, get, get_with, head, impatient, internet, once, params, request, web,
};
use tidewatch_fixtures::loopback::{LoopbackServer, Reply, ServerStep};

#[tokio::test]
async fn redirects_end() {
    let web =
        web(|seen| match seen.path.strip_prefix("/down/").and_then(|left| left.parse::<u32>().ok()) {
            Some(0) => Reply::ok("floor"),
            Some(left) => Reply::redirect(301, format!("/down/{}", left - 1)),
            None if seen.path == "/nowhere" => Reply::new(302),
            None if seen.path == "/file" => Reply::redirect(302, "file:///etc/passwd"),
            None if seen.path == "/bad" => Reply::redirect(302, "http://[oops"),
            None => Reply::redirect(302, if seen.path == "/ping" { "/pong" } else { "/ping" }),
        })
        .await;
    let answer = get(&request(web.url("/down/5"))).await.unwrap();
    assert_eq!((answer.status, answer.final_url), (200, web.url("/down/0")));
    let before = web.requests().len();
    let error = get(&request(web.url("/down/6"))).await.unwrap_err();
    assert_eq!(error.message, "more than 5 redirects");
    assert_eq!(web.requests().len() - before, 6);
    let error = get(&request(web.url("/ping"))).await.unwrap_err();
    assert!(error.message.starts_with("a redirect loop"), "{error}");
    assert_eq!(get(&request(web.url("/nowhere"))).await.unwrap().status, 302);
    let error = get(&request(web.url("/file"))).await.unwrap_err();
    assert_eq!(error.message, "`file` is not http or https");
    assert!(get(&request(web.url("/bad"))).await.unwrap_err().message.contains("no URL"));
}

#[tokio::test]
async fn only_permanent_redirects_move_a_source() {
    let web = web(|seen| match seen.path.as_str() {
        "/301" => Reply::redirect(301, "/there"),
        "/308" => Reply::redirect(308, "/301"),
        "/302" => Reply::redirect(302, "/there"),
        "/307" => Reply::redirect(307, "/there"),
        "/mixed" => Reply::redirect(301, "/302"),
        "/mixed2" => Reply::redirect(302, "/301"),
        "/gone" => Reply::redirect(301, "/missing"),
        "/missing" => Reply::new(404),
        _ => Reply::ok("x"),
    })
    .await;
    for (path, moved) in [
        ("/301", true),
        ("/308", true),
        ("/302", false),
        ("/307", false),
        ("/mixed", false),
        ("/mixed2", false),
        ("/there", false),
        ("/gone", false),
    ] {
        let answer = get(&request(web.url(path))).await.unwrap();
        assert_eq!(answer.moved_to, moved.then(|| web.url("/there")), "{path}");
    }
}

#[tokio::test]
async fn redirects_cannot_reach_private_addresses() {
    let inside = LoopbackServer::start(|_| Reply::ok("internal secret")).await;
    let port = inside.address().port();
    let fixed = FetchParams {
        resolve: vec![
            ("rebound.example".to_owned(), IpAddr::from([127, 0, 0, 1])),
            ("outside.example".to_owned(), internet()),
        ],
        ..params()
    };
    for (host, message) in [
        ("127.0.0.1", "127.0.0.1 is a private address"),
        ("0x7f.1", "127.0.0.1 is a private address"),
        ("2130706433", "127.0.0.1 is a private address"),
        ("[::ffff:127.0.0.1]", "is a private address"),
        ("rebound.example", "rebound.example resolves only to private addresses (127.0.0.1)"),
        ("localhost", "localhost resolves only to private addresses (127.0.0.1"),
        ("x.LOCALHOST.", "x.localhost resolves only to private addresses"),
    ] {
        let target = format!("http://{host}:{port}/");
        let outside = web(move |_| Reply::redirect(302, &target)).await;
        let asked = request(outside.url_as("outside.example", "/"));
        let error = get_with(&fixed, &asked).await.unwrap_err();
        assert!(error.message.contains(message), "{host}: {error}");
        assert!(error.message.contains("set allow_private = true for it"), "{error}");
        assert_eq!(error.fault, FetchFault::PrivateAddress);
        assert_eq!(outside.requests().len(), 1, "{host}");
        assert_eq!(inside.connections(), 0, "{host}");
        // Also when it is the configured address itself.
        let direct = request(Url::parse(&format!("http://{host}:{port}/")).unwrap());
        assert!(get_with(&fixed, &direct).await.unwrap_err().message.contains(message), "{host}");
        assert_eq!(inside.connections(), 0, "{host}");
        let permitted = FetchRequest { allow_private: true, ..asked };
        assert_eq!(
            decoded(get_with(&fixed, &permitted).await.unwrap()).unwrap(),
            b"internal secret",
            "{host}"
        );
        assert_eq!(inside.connections(), 1, "{host}");
        inside.clear_log();
    }
}

#[tokio::test]
async fn permission_does_not_leak_through_open_connections() {
    // A connection that a permitted request left open must not be used by one without permission.
    let inside = LoopbackServer::start(|_| {
        Reply::raw(vec![head("Content-Length: 2\r\n"), ServerStep::Send(b"ok".to_vec()), ServerStep::Stall])
    })
    .await;
    let fixed = FetchParams {
        resolve: vec![("name.example".to_owned(), IpAddr::from([127, 0, 0, 1]))],
        ..params()
    };
    let fetcher = fetcher(&fixed);
    let plain = request(inside.url_as("name.example", "/"));
    let permitted = FetchRequest { allow_private: true, ..plain.clone() };
    assert_eq!(decoded(follow(&fetcher, &permitted, &Clock::wall()).await.unwrap()).unwrap(), b"ok");
    let refused = follow(&fetcher, &plain, &Clock::wall()).await.unwrap_err();
    assert!(refused.message.contains("only to private addresses"), "{refused}");
    assert_eq!((inside.connections(), inside.requests().len()), (1, 1));
}

#[tokio::test]
async fn secrets_stay_with_their_origin() {
    let way_back = Arc::new(OnceLock::<Url>::new());
    let known = Arc::clone(&way_back);
    let other = web(move |seen| match seen.path.as_str() {
        "/back" => Reply::redirect(302, known.get().unwrap()),
        _ => Reply::ok("x"),
    })
    .await;
    let (elsewhere, detour) = (other.url("/"), other.url("/back"));
    let home = web(move |seen| match seen.path.as_str() {
        "/near" => Reply::redirect(302, "/here"),
        "/far" => Reply::redirect(307, &elsewhere),
        "/detour" => Reply::redirect(302, &detour),
        _ => Reply::ok("x"),
    })
    .await;
    let mut headers = HeaderMap::new();
    let mut value = HeaderValue::from_static("hunter2");
    value.set_sensitive(true);
    headers.insert("x-key", value);
    let asked = |path: &str| {
        let mut url = home.url(path);
        url.set_username("me").unwrap();
        url.set_password(Some("hunter3")).unwrap();
        FetchRequest { headers: headers.clone(), ..request(url) }
    };
    let near = get(&asked("/near")).await.unwrap();
    assert_eq!(near.final_url, home.url("/here"));
    for seen in home.requests() {
        assert_eq!(seen.text("x-key").as_deref(), Some("hunter2"));
        assert_eq!(seen.text("authorization").as_deref(), Some("Basic bWU6aHVudGVyMw=="));
    }
    get(&asked("/far")).await.unwrap();
    let foreign = &other.requests()[0];
    assert_eq!((foreign.text("x-key"), foreign.text("authorization")), (None, None));
    assert!(!String::from_utf8_lossy(&foreign.head).contains("hunter"));
    // A foreign host that redirects back must not choose the path that gets the secrets.
    way_back.set(home.url("/delete?all")).unwrap();
    get(&asked("/detour")).await.unwrap();
    let back = home.requests().pop().unwrap();
    assert_eq!(back.path, "/delete?all");
    assert_eq!((back.text("x-key"), back.text("authorization")), (None, None));
    assert!(!format!("{:?} {near:?}", asked("/far?token=hunter4")).contains("hunter"));
}

#[tokio::test]
async fn secrets_are_in_no_error() {
    let target = web(|_| Reply::ok("x")).await;
    let mut gone = target.url("/x?token=hunter1");
    target.stop().await;
    gone.set_username("me").unwrap();
    gone.set_password(Some("hunter2")).unwrap();
    let mut headers = HeaderMap::new();
    headers.insert("x-key", HeaderValue::from_static("hunter3"));
    let refused = get(&FetchRequest { headers, ..request(gone.clone()) }).await.unwrap_err();
    assert!(refused.message.contains("Connection refused"), "{refused}");
    let hops = web(move |_| Reply::redirect(302, gone.as_str())).await;
    let hop = get(&request(hops.url("/"))).await.unwrap_err();
    let stalled = once(&impatient(), Reply::raw(vec![ServerStep::Stall])).await.unwrap_err();
    for error in [refused, hop, stalled] {
        assert!(!format!("{error} {error:?}").contains("hunter"), "{error:?}");
    }
}
