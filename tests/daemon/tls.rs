//! HTTPS with HTTP/2, over IPv4 and IPv6: the built binary against a server whose certificate only this
//! test trusts. The key in `tls/` protects nothing.

use std::net::SocketAddr;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};

use http::{Response, Version};
use tempfile::TempDir;
use tidewatch_core::time::Span;
use tidewatch_fixtures::source_list::source_table;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::politeness::world::{World, source};
use crate::waiting::soon;

const FEED: &str =
    "<rss version=\"2.0\"><channel><title>t</title><item><guid>1</guid></item></channel></rss>";

/// A certificate for loopback, valid from 2000 to 2124, and its key.
const CERTIFICATE: &str = include_str!("tls/certificate.pem");
const KEY: &str = include_str!("tls/key.pem");

/// The certificate of another authority.
const OTHER_AUTHORITY: &str = include_str!("tls/other_authority.pem");

struct Server {
    address: SocketAddr,
    versions: Arc<Mutex<Vec<Version>>>,
}

/// Starts a server on this address; none if the machine does not have it.
async fn serve(on: &str) -> Option<Server> {
    let listener = TcpListener::bind((on, 0)).await.ok()?;
    let address = listener.local_addr().unwrap();
    let certificate = CertificateDer::from_pem_slice(CERTIFICATE.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(KEY.as_bytes()).unwrap();
    let mut config =
        ServerConfig::builder().with_no_client_auth().with_single_cert(vec![certificate], key).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let versions = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&versions);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, acceptor.clone(), Arc::clone(&seen)));
        }
    });
    Some(Server { address, versions })
}

/// Answers every request of a connection with the feed, by HTTP/2. Ends when the client refuses.
async fn answer(stream: TcpStream, acceptor: TlsAcceptor, versions: Arc<Mutex<Vec<Version>>>) {
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let Ok(mut connection) = h2::server::handshake(stream).await else { return };
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        versions.lock().unwrap().push(request.version());
        let mut body = respond.send_response(Response::new(()), false).unwrap();
        body.send_data(FEED.into(), true).unwrap();
    }
}

/// `tidewatch probe` of a feed at that address.
async fn probe(address: SocketAddr, authority: &str) -> Output {
    let dir = TempDir::new().unwrap();
    let path = move |name: &str| dir.path().join(name);
    std::fs::write(path("ca.pem"), authority).unwrap();
    let source = source_table("x", &format!("https://{address}/feed"), "");
    let config = format!("[daemon]\nstore = '{}'\n{source}", path("t.db").display());
    std::fs::write(path("t.toml"), config).unwrap();
    tokio::task::spawn_blocking(move || {
        Command::new(env!("CARGO_BIN_EXE_tidewatch"))
            .args(["probe", "x", "--config"])
            .arg(path("t.toml"))
            .env("SSL_CERT_FILE", path("ca.pem"))
            .output()
            .unwrap()
    })
    .await
    .unwrap()
}

#[tokio::test]
async fn http_2_is_used_where_the_server_offers_it() {
    let mut families = 0;
    for on in ["127.0.0.1", "::1"] {
        // A machine without IPv6 cannot show that half.
        let Some(server) = serve(on).await else { continue };
        families += 1;
        let output = probe(server.address, CERTIFICATE).await;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(String::from_utf8_lossy(&output.stdout).contains("HTTP 200"));
        assert_eq!(*server.versions.lock().unwrap(), [Version::HTTP_2]);
    }
    assert!(families > 0);
}

#[tokio::test]
async fn a_certificate_of_an_unknown_authority_is_refused() {
    let server = serve("127.0.0.1").await.unwrap();
    let output = probe(server.address, OTHER_AUTHORITY).await;
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8_lossy(&output.stderr).to_lowercase();
    assert!(error.contains("certificate"), "{error}");
    assert!(server.versions.lock().unwrap().is_empty());
}

/// Set in a process whose `SSL_CERT_FILE` belongs to the test that runs in it.
const HAS_OWN_AUTHORITIES: &str = "HAS_OWN_AUTHORITIES";

/// Runs a test of this file again, in a process that trusts the other authority.
async fn with_own_authorities(test: &str) {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("ca.pem");
    std::fs::write(&file, OTHER_AUTHORITY).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([&format!("tls::{test}"), "--exact", "--nocapture"]);
    command.env("SSL_CERT_FILE", &file).env_remove("SSL_CERT_DIR").env(HAS_OWN_AUTHORITIES, "1");
    let output = tokio::task::spawn_blocking(move || command.output().unwrap());
    let output = soon("the test in its own process", output).await.unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("1 passed"), "{text}");
}

#[tokio::test]
async fn an_authority_that_appears_is_known_after_a_day_without_a_restart() {
    if std::env::var_os(HAS_OWN_AUTHORITIES).is_none() {
        return with_own_authorities("an_authority_that_appears_is_known_after_a_day_without_a_restart")
            .await;
    }
    let server = serve("127.0.0.1").await.unwrap();
    let world = World::new(7200.0);
    let url = format!("https://{}/feed", server.address).parse().unwrap();
    let daemon = world.start(&[source("s", &url)]).await;
    world.until("SELECT count(*) FROM probes", |probes| probes >= 2).await;
    std::fs::write(std::env::var_os("SSL_CERT_FILE").unwrap(), CERTIFICATE).unwrap();
    let (appeared, requests) = (world.clock.now(), server.versions.lock().unwrap().len());
    world.until("SELECT max(outcome <> 'failed' OR id > 12) FROM probes", |done| done == 1).await;
    daemon.stop().await;
    assert_eq!(requests, 0, "the certificate is not valid at first");
    let errors: Vec<(String,)> =
        world.rows("SELECT DISTINCT error FROM probes WHERE error IS NOT NULL").await;
    assert!(errors.len() == 1 && errors[0].0.contains("certificate"), "{errors:?}");
    // A day, and the backoff of at most a day and a quarter.
    let first = world.number("SELECT min(started_at) FROM probes WHERE outcome <> 'failed'").await;
    let after = Span::from_millis(first - appeared.as_millis());
    assert!(first > 0 && after <= Span::from_hours(54), "it is trusted after {after}");
}
