//! Delivers to a webhook: the document as a signed POST.
//!
//! Sets the signature and the idempotency key, and maps the response status to a result. Secrets are read
//! just before the request and dropped after it. Must not open a socket: the fetcher does.

use bytes::Bytes;
use hmac::{Hmac, Mac};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use sha2::Sha256;
use url::Url;

use crate::config::secret::Secret;
use crate::fetch::post::{PostAnswer, PostRequest};
use crate::fetch::secret::{read_headers, read_one};

use super::delivery_outcome::DeliveryOutcome;
use super::shipment::{Shipment, Tools};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const SIGNATURE: HeaderName = HeaderName::from_static("x-tidewatch-signature");

/// Statuses that concern the document itself: a retry cannot succeed.
const REFUSALS: [u16; 9] = [400, 405, 406, 410, 411, 413, 414, 415, 422];

/// A webhook as configured.
pub(super) struct Hook<'a> {
    pub(super) url: &'a Url,
    pub(super) secret: Option<&'a Secret>,
    pub(super) headers: &'a [(String, Secret)],
    pub(super) allow_private: bool,
}

/// Posts the document once.
pub(super) async fn post(hook: Hook<'_>, shipment: Shipment, tools: &Tools) -> DeliveryOutcome {
    let body = Bytes::from(shipment.document);
    let headers = match headers(&hook, &shipment.key, body.clone()).await {
        Ok(headers) => headers,
        Err(error) => return DeliveryOutcome::failed(error),
    };
    let post = PostRequest { url: hook.url.clone(), headers, body, allow_private: hook.allow_private };
    match tools.fetcher.post(post, &tools.clock).await {
        Ok(answered) => outcome_of(answered),
        Err(error) => DeliveryOutcome::failed(error.message),
    }
}

/// Maps the response to the result of the attempt.
fn outcome_of(PostAnswer { status, retry_after }: PostAnswer) -> DeliveryOutcome {
    match status {
        200..=299 => DeliveryOutcome::Delivered,
        300..=399 => DeliveryOutcome::failed(format!(
            "HTTP {status}: a redirect, which is not followed; configure the address it leads to"
        )),
        _ if REFUSALS.contains(&status) => {
            DeliveryOutcome::Refused(format!("HTTP {status}: the receiver refuses this document"))
        }
        _ => DeliveryOutcome::Failed { error: format!("HTTP {status}"), retry_after },
    }
}

/// Builds the headers; reads secrets on a blocking thread. Fixed headers replace configured ones.
async fn headers(hook: &Hook<'_>, key: &str, body: Bytes) -> Result<HeaderMap, String> {
    let (secret, configured) = (hook.secret.cloned(), hook.headers.to_vec());
    let reading = tokio::task::spawn_blocking(move || {
        let credentials = std::env::var_os("CREDENTIALS_DIRECTORY").map(std::path::PathBuf::from);
        let mut headers =
            read_headers(&configured, credentials.as_deref()).map_err(|error| error.to_string())?;
        if let Some(secret) = secret {
            let secret = read_one(&secret, credentials.as_deref()).map_err(|error| error.to_string())?;
            headers.insert(SIGNATURE, signature(&secret, &body)?);
        }
        Ok::<_, String>(headers)
    });
    let mut headers = reading
        .await
        .unwrap_or_else(|_| Err("reading the secrets panicked; please report it".to_owned()))?;
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let key = HeaderValue::from_str(key).map_err(|_| "its key is not fit for a header".to_owned())?;
    headers.insert(IDEMPOTENCY_KEY, key);
    Ok(headers)
}

/// `sha256=` and the HMAC of the body.
fn signature(secret: &[u8], body: &[u8]) -> Result<HeaderValue, String> {
    let unfit = || "the secret is not fit for signing".to_owned();
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).map_err(|_| unfit())?;
    mac.update(body);
    let code: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    HeaderValue::from_str(&format!("sha256={code}")).map_err(|_| unfit())
}

#[cfg(test)]
mod tests {
    use tidewatch_core::time::Span;

    use super::*;

    #[test]
    fn signatures_are_those_of_rfc_4231() {
        let signed = signature(b"Jefe", b"what do ya want for nothing?").unwrap();
        assert_eq!(signed, "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    }

    #[test]
    fn only_statuses_about_the_document_are_final() {
        let of = |status| outcome_of(PostAnswer { status, retry_after: Some(Span::from_secs(9)) });
        assert_eq!(of(204), DeliveryOutcome::Delivered);
        assert!(REFUSALS.into_iter().all(|status| matches!(of(status), DeliveryOutcome::Refused(_))));
        for status in [301, 401, 403, 404, 408, 409, 425, 429, 500, 503] {
            assert!(matches!(of(status), DeliveryOutcome::Failed { .. }), "{status}");
        }
        assert!(matches!(of(429), DeliveryOutcome::Failed { retry_after: Some(_), .. }));
    }
}
