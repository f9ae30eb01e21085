//! Probes that end without a readable answer.

use crate::fetch::answer::HttpAnswer;
use crate::fetch::error::{FetchError, FetchFault};
use crate::fetch::host_group::host_group;
use crate::store::record::ValidatorsChange;
use tidewatch_core::engine::event::Failure;
use tidewatch_core::engine::params::HostGroup;

/// The error of a probe without a readable answer.
pub(super) struct Stopped {
    pub(super) failure: Failure,
    pub(super) error: String,
    pub(super) http_status: Option<u16>,
    pub(super) answered_by: Option<HostGroup>,
    pub(super) validators: ValidatorsChange,
}

impl Stopped {
    pub(super) fn new(failure: Failure, error: impl Into<String>) -> Self {
        Self {
            failure,
            error: error.into(),
            http_status: None,
            answered_by: None,
            validators: ValidatorsChange::Keep,
        }
    }
}

/// A request without a valid answer.
pub(super) fn without_answer(error: FetchError) -> Stopped {
    let failure = match error.fault {
        FetchFault::NameUnknown => Failure::NameUnknown,
        FetchFault::Resolver => Failure::ResolverFailed,
        FetchFault::PrivateAddress => Failure::PrivateAddress,
        FetchFault::Connection => Failure::Unreachable,
        FetchFault::Certificate => Failure::BadCertificate,
        FetchFault::NoAnswer => Failure::Unanswered,
        FetchFault::NoDescriptors | FetchFault::NoDescriptorsAtRedirect => Failure::NoDescriptors,
        FetchFault::Answer => Failure::Unreadable,
    };
    Stopped::new(failure, error.message)
}

/// An answer with another status than was asked for.
pub(super) fn refused(answer: &HttpAnswer) -> Stopped {
    let failure = match answer.status {
        410 => Failure::Gone,
        _ if answer.throttled => Failure::Throttled { retry_after: answer.retry_after },
        204 | 205 | 304 => Failure::Unreadable,
        _ => Failure::Refused,
    };
    let reason =
        http::StatusCode::from_u16(answer.status).ok().and_then(|status| status.canonical_reason());
    let mut error = format!("HTTP {} {}", answer.status, reason.unwrap_or_default()).trim_end().to_owned();
    match (failure, answer.retry_after) {
        (Failure::Gone, _) => error.push_str(": gone for good; it rests until its URL changes"),
        (Failure::Throttled { .. }, Some(pause)) => {
            error.push_str(&format!(": asked to come back in {pause}"))
        }
        (Failure::Unreadable, _) => error.push_str(": not an answer to what was asked"),
        _ => {}
    }
    let answered_by = Some(host_group(&answer.final_url));
    Stopped { http_status: Some(answer.status), answered_by, ..Stopped::new(failure, error) }
}
