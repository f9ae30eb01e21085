//! HTTPS with HTTP/2, over IPv4 and IPv6: the built binary against a server whose certificate
//! comes from an authority that only this test knows.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

const FEED: &str =
    "<rss version=\"2.0\"><channel><title>t</title><item><guid>1</guid></item></channel></rss>";

struct Server {
    address: SocketAddr,
    versions: Arc<Mutex<Vec<Version>>>,
    authority: String,
}

async fn serve(on: &str) -> Option<Server> {
    let listener = TcpListener::bind((on, 0)).await.ok()?;
    let address = listener.local_addr().unwrap();
    let key = rcgen::generate_simple_self_signed([on.to_owned()]).unwrap();
    let private = PrivateKeyDer::try_from(key.signing_key.serialize_der()).unwrap();
    let mut config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![key.cert.der().clone()], private)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let versions = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&versions);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(stream) = acceptor.accept(stream).await else { continue };
            let seen = Arc::clone(&seen);
            let answer = service_fn(move |request: Request<Incoming>| {
                seen.lock().unwrap().push(request.version());
                async { Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(FEED.as_bytes())))) }
            });
            tokio::spawn(
                hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(stream), answer),
            );
        }
    });
    Some(Server { address, versions, authority: key.cert.pem() })
}

/// `tidewatch probe` of a feed at that address.
async fn probe(address: SocketAddr, authority: &str) -> Output {
    let dir = TempDir::new().unwrap();
    let path = move |name: &str| dir.path().join(name);
    std::fs::write(path("ca.pem"), authority).unwrap();
    let config = format!(
        "[daemon]\nstore = '{}'\n[[source]]\nname = 'x'\nurl = 'https://{address}/feed'\nallow_private = true\n",
        path("t.db").display()
    );
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
async fn http_2_is_spoken_where_the_server_speaks_it() {
    let mut families = 0;
    for on in ["127.0.0.1", "::1"] {
        // A machine without IPv6 cannot show that half.
        let Some(server) = serve(on).await else { continue };
        families += 1;
        let output = probe(server.address, &server.authority).await;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(String::from_utf8_lossy(&output.stdout).contains("HTTP 200"));
        assert_eq!(*server.versions.lock().unwrap(), [Version::HTTP_2]);
    }
    assert!(families > 0);
}

#[tokio::test]
async fn a_certificate_that_nobody_vouches_for_is_refused() {
    let server = serve("127.0.0.1").await.unwrap();
    let stranger = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let output = probe(server.address, &stranger.cert.pem()).await;
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).to_lowercase();
    assert!(said.contains("certificate"), "{said}");
    assert!(server.versions.lock().unwrap().is_empty());
}
