//! HTTPS with HTTP/2, over IPv4 and IPv6: the built binary against a server whose certificate only this
//! test trusts. The key in `tls/` protects nothing.

use std::net::SocketAddr;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};

use http::{Response, Version};
use tempfile::TempDir;
use tidewatch_fixtures::source_list::source_table;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

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
