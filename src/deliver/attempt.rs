//! One attempt, whatever the way.
//!
//! Exists so that a lane need not know how its target is told. Must not touch the row.

use crate::clock::patience;
use crate::config::target::{Target, Way};

use super::parcel::{Parcel, Tools};
use super::verdict::Verdict;
use super::{atom, exec, webhook};

/// Tries once. When this is dropped, whatever it started ends.
pub(super) async fn attempt(target: &Target, parcel: Parcel, tools: &Tools) -> Verdict {
    let limit = target.timeout.to_duration();
    let late = |what: &str| Verdict::failed(format!("{what} after {}", target.timeout));
    match &target.way {
        Way::Exec { command } => patience(limit, exec::run(command, &target.name, &parcel))
            .await
            .unwrap_or_else(|_| late("it had not ended and was killed")),
        Way::Webhook { url, secret, headers, allow_private } => {
            let hook =
                webhook::Hook { url, secret: secret.as_ref(), headers, allow_private: *allow_private };
            patience(limit, webhook::post(hook, parcel, tools)).await.unwrap_or_else(|_| late("no answer"))
        }
        // Without a limit: a write to a local disk cannot be called off, and must not go on beside
        // the next one.
        Way::Atom { path, entries } => {
            atom::publish(&target.name, path, *entries, &parcel, &tools.reader).await
        }
    }
}
