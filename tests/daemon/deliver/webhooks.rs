//! Webhooks: their requests, their permitted addresses and the handling of their answers.

use std::fs;

use hmac::{Hmac, Mac};
use serde_json::Value;
use sha2::Sha256;
use tidewatch::config::secret::Secret;
use tidewatch::config::target::{TargetConfig, Way};
use tidewatch::store::deliveries::DeliveryRow;
use url::Url;

use super::fixture::{Fixture, HOSTILE, Log, webhook};
use crate::waiting::soon;
use tidewatch_fixtures::loopback::{LoopbackServer, Reply, SeenRequest};

/// The same webhook, with secrets.
fn with(target: TargetConfig, signed_with: Option<Secret>, extra: &[(&str, Secret)]) -> TargetConfig {
    let Way::Webhook { url, allow_private, .. } = target.way else { panic!("a webhook") };
    let headers = extra.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    TargetConfig { way: Way::Webhook { url, secret: signed_with, headers, allow_private }, ..target }
}

fn guarded(target: TargetConfig) -> TargetConfig {
    let Way::Webhook { url, secret, headers, .. } = target.way else { panic!("a webhook") };
    TargetConfig { way: Way::Webhook { url, secret, headers, allow_private: false }, ..target }
}

fn key(seen: &SeenRequest) -> String {
    seen.text("idempotency-key").unwrap()
}

#[tokio::test]
async fn the_document_arrives_complete_signed_and_with_its_key() {
    let web = LoopbackServer::start(|_| Reply::new(202)).await;
    let fixture = Fixture::stopped(1.0).await;
    fs::write(fixture.path("secret"), " hunter2\n").unwrap();
    let extra = [
        ("Authorization", Secret::Literal("Bearer hunter3".into())),
        ("Content-Type", Secret::Literal("text/plain".into())),
    ];
    let hook =
        with(webhook("webhook:a", web.url("/in?x=1")), Some(Secret::File(fixture.path("secret"))), &extra);
    let fixture = fixture.run_with(vec![hook]);
    let long = HOSTILE.repeat(1_000_000 / HOSTILE.len() + 1);
    fixture.enqueue("webhook:a", &[HOSTILE, &long]).await;
    fixture.delivered(2).await;
    for ((seen, row), title) in web.requests().iter().zip(fixture.rows().await).zip([HOSTILE, &long]) {
        assert_eq!((seen.method.as_str(), seen.path.as_str()), ("POST", "/in?x=1"));
        assert!(seen.body == row.document.as_bytes(), "the stored document, byte for byte");
        let document: Value = serde_json::from_slice(&seen.body).unwrap();
        assert!(document["items"][0]["title"] == title, "intact");
        assert_eq!((key(seen), &document["key"]), (row.key.clone(), &Value::from(row.key)));
        assert_eq!(seen.text("content-type").as_deref(), Some("application/json"));
        assert_eq!(seen.text("authorization").as_deref(), Some("Bearer hunter3"));
        let agent = seen.text("user-agent").unwrap();
        assert!(agent.starts_with("tidewatch/") && agent.ends_with("(+mailto:me@example.org)"), "{agent}");
        let mut mac = Hmac::<Sha256>::new_from_slice(b"hunter2").unwrap();
        mac.update(&seen.body);
        let signed: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(seen.text("x-tidewatch-signature"), Some(format!("sha256={signed}")));
    }
}

#[tokio::test]
async fn without_a_secret_nothing_is_signed() {
    let web = LoopbackServer::start(|_| Reply::new(200)).await;
    let fixture = Fixture::running(1.0, vec![webhook("webhook:a", web.url("/"))]).await;
    fixture.enqueue("webhook:a", &["x"]).await;
    fixture.delivered(1).await;
    assert_eq!(web.requests()[0].text("x-tidewatch-signature"), None);
}

#[tokio::test]
async fn private_addresses_need_permission_by_number_and_by_name() {
    let web = LoopbackServer::start(|_| Reply::new(200)).await;
    let fixture = Fixture::running(
        1.0,
        vec![
            guarded(webhook("webhook:number", web.url("/"))),
            guarded(webhook("webhook:name", web.url_as("hook.example", "/"))),
        ],
    )
    .await;
    for target in ["webhook:number", "webhook:name"] {
        fixture.enqueue(target, &["x"]).await;
        let error = fixture.failed(target).await.last_error.unwrap();
        assert!(error.contains("private address"), "{error}");
        assert!(error.contains("allow_private = true"), "says what to do: {error}");
    }
    assert_eq!(web.connections(), 0);
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let web = LoopbackServer::start(|seen| match seen.path.as_str() {
        "/in" => Reply::redirect(307, "/elsewhere?token=hunter2"),
        _ => Reply::new(200),
    })
    .await;
    let fixture = Fixture::running(1.0, vec![webhook("webhook:a", web.url("/in"))]).await;
    fixture.enqueue("webhook:a", &["x"]).await;
    let error = fixture.failed("webhook:a").await.last_error.unwrap();
    assert!(error.starts_with("HTTP 307: a redirect, which is not followed"), "{error}");
    assert!(!error.contains("hunter2"));
    assert!(web.requests().iter().all(|seen| seen.path == "/in"));
}

#[tokio::test]
async fn secrets_are_in_no_error_and_no_log() {
    let log = Log::listen();
    let closed = LoopbackServer::start(|_| Reply::new(200)).await;
    let mut url = closed.url("/hunter1?token=hunter2#hunter3");
    url.set_username("hunter4").unwrap();
    url.set_password(Some("hunter5")).unwrap();
    closed.stop().await;
    let unreachable = webhook("webhook:unreachable", url.clone());
    let broken = [("X-Token", Secret::Literal("hunter6\nhunter7".into()))];
    let fixture = Fixture::running(
        1.0,
        vec![
            with(unreachable.clone(), Some(Secret::Literal("hunter8".into())), &[]),
            with(webhook("webhook:broken", url.clone()), None, &broken),
            with(webhook("webhook:file", url), Some(Secret::File("/nowhere/secret".into())), &[]),
            webhook("webhook:scheme", Url::parse("ftp://hunter:hunter@127.0.0.1/hunter?hunter").unwrap()),
        ],
    )
    .await;
    let mut errors = Vec::new();
    for name in ["webhook:unreachable", "webhook:broken", "webhook:file", "webhook:scheme"] {
        fixture.enqueue(name, &["x"]).await;
        let DeliveryRow { last_error, .. } = fixture.failed(name).await;
        errors.push(last_error.unwrap());
    }
    assert!(errors[0].contains("cannot connect to 127.0.0.1:"), "{errors:#?}");
    assert!(errors[1].contains("x-token"), "{errors:#?}");
    assert!(errors[2].contains("cannot read /nowhere/secret"), "{errors:#?}");
    assert!(errors[3].contains("not http"), "{errors:#?}");
    assert!(!errors.iter().any(|error| error.contains("hunter")), "{errors:#?}");
    assert!(log.text().contains("cannot connect"), "something was logged: {}", log.text());
    assert!(!log.text().contains("hunter"), "{}", log.text());
    assert!(!format!("{unreachable:?}").contains("hunter8"));
}

#[tokio::test]
async fn the_body_of_an_answer_is_not_read() {
    use tidewatch_fixtures::loopback::ServerStep;
    let endless = ServerStep::Forever(vec![b'x'; 65_536]);
    let head = ServerStep::Send(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n".to_vec());
    let web = LoopbackServer::start(move |_| Reply::raw(vec![head.clone(), endless.clone()])).await;
    let fixture = Fixture::running(1.0, vec![webhook("webhook:a", web.url("/"))]).await;
    fixture.enqueue("webhook:a", &["x"]).await;
    fixture.delivered(1).await;
    soon("the connection ends", web.settled()).await;
}
