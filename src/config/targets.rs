//! Stage two for `[deliver.NAME]`: checks the targets.
//!
//! Checks each target by itself. Must not know rules, nor open secrets.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidewatch_core::time::Span;

use super::fault::Faults;
use super::raw_profile;
use super::target::{TargetConfig, Way};
use super::values::{self, LowerBound};
use super::{address, header};

const TIMEOUT: Span = Span::from_secs(30);
const GIVE_UP: Span = Span::from_days(3);
const ENTRIES: u32 = 100;

/// Checks all targets.
pub fn check(raw: Vec<raw_profile::RawTarget>, faults: &mut Faults) -> Vec<Arc<TargetConfig>> {
    raw.into_iter().filter_map(|target| one(target, faults).map(Arc::new)).collect()
}

fn one(raw: raw_profile::RawTarget, faults: &mut Faults) -> Option<TargetConfig> {
    let at = raw.name.at;
    let mut span = |key, text: Option<_>, default| {
        text.and_then(|text| values::span(key, &text, LowerBound::Positive, faults)).unwrap_or(default)
    };
    let (timeout, give_up) = (span("timeout", raw.timeout, TIMEOUT), span("give_up", raw.give_up, GIVE_UP));
    let name = raw.name.value;
    if let Some((wrong, hint)) = values::bad_name(&name) {
        faults.add_with_hint(at, format!("the name of this target {wrong}"), hint);
    }
    let ways = [raw.exec.is_some(), raw.webhook.is_some(), raw.atom.is_some()];
    if ways.iter().filter(|&&way| way).count() != 1 {
        faults.add_with_hint(
            at,
            format!("[deliver.{name}] must have one of `exec`, `webhook` and `atom`"),
            "such as exec = [\"/usr/bin/notify\"], webhook = \"https://example.org/hook\" or atom = \"matches.xml\"",
        );
        return None;
    }
    for (key, at, of, is) in [
        ("secret", raw.secret.as_ref().map(|secret| secret.at), "webhook", ways[1]),
        ("headers", raw.headers.first().map(|(name, _)| name.at), "webhook", ways[1]),
        ("allow_private", raw.allow_private.as_ref().map(|flag| flag.at), "webhook", ways[1]),
        ("entries", raw.entries.as_ref().map(|entries| entries.at), "atom", ways[2]),
    ] {
        if let Some(at) = at.filter(|_| !is) {
            faults.add_with_hint(at, format!("`{key}` means nothing here"), format!("it is for `{of}`"));
        }
    }
    let way = if let Some(command) = raw.exec {
        let words: Vec<String> = command.value.iter().map(|word| word.value.clone()).collect();
        let program = command.value.first();
        if !program.is_some_and(|program| Path::new(&program.value).is_absolute()) {
            faults.add_with_hint(
                program.map_or(command.at, |program| program.at),
                "`exec` must begin with the full path of a program",
                "neither a shell nor a search path is used: write [\"/usr/bin/notify\", \"--json\"]",
            );
        }
        if let Some(word) = command.value.iter().find(|word| word.value.contains('\0')) {
            faults.add(word.at, "a program's argument can't hold a NUL");
        }
        Way::Exec { command: words }
    } else if let Some(text) = raw.webhook {
        let allow_private = raw.allow_private.is_some_and(|flag| flag.value);
        // The address alone allows a post, so it is treated as a secret.
        faults.hide(text.at);
        let url = address::read(&text.value, allow_private).map_err(|error| {
            faults.add_with_hint(text.at, error.to_string(), error.hint());
        });
        Way::Webhook {
            url: url.ok()?,
            secret: raw.secret.and_then(|secret| header::secret("`secret`", secret, faults)),
            headers: header::check(raw.headers, faults),
            allow_private,
        }
    } else {
        let path = raw.atom?;
        if path.value.trim().is_empty() {
            faults.add_with_hint(path.at, "`atom` is empty", "expected the path of a file");
        }
        let entries = raw.entries.and_then(|entries| values::count("entries", entries, faults));
        Way::Atom { path: PathBuf::from(path.value), entries: entries.unwrap_or(ENTRIES) }
    };
    let kind = match way {
        Way::Exec { .. } => "exec",
        Way::Webhook { .. } => "webhook",
        Way::Atom { .. } => "atom",
    };
    Some(TargetConfig { name: format!("{kind}:{name}").into(), way, timeout, give_up })
}
