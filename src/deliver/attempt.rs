//! One attempt to deliver, by any kind of target.
//!
//! Hides the kind of target from the worker of a target. Must not change the row in the outbox.

use crate::clock::patience;
use crate::config::target::{TargetConfig, Way};

use super::delivery_outcome::DeliveryOutcome;
use super::shipment::{Shipment, Tools};
use super::{atom, exec, webhook};

/// Makes one attempt. Dropping the future ends everything that it started, except a write of a feed file.
pub(super) async fn attempt(target: &TargetConfig, shipment: Shipment, tools: &Tools) -> DeliveryOutcome {
    let limit = target.timeout.to_duration();
    let late = |what: &str| DeliveryOutcome::failed(format!("{what} after {}", target.timeout));
    match &target.way {
        Way::Exec { command } => patience(limit, exec::run(command, &target.name, &shipment))
            .await
            .unwrap_or_else(|_| late("it had not ended and was killed")),
        Way::Webhook { url, secret, headers, allow_private } => {
            let hook =
                webhook::Hook { url, secret: secret.as_ref(), headers, allow_private: *allow_private };
            patience(limit, webhook::post(hook, shipment, tools))
                .await
                .unwrap_or_else(|_| late("no answer"))
        }
        // No time limit: a file write cannot be cancelled, and must not overlap with the next one.
        Way::Atom { path, entries } => {
            atom::publish(&target.name, path, *entries, &shipment, &tools.reader).await
        }
    }
}
