//! `tidewatch pardon`: lifts a `Retry-After`, a backoff or the pause of a site.
//!
//! If a daemon runs, it lifts them, because it has them in memory.

use std::io::Write;
use std::time::Duration;

use url::Url;

use crate::clock::{Clock, Stopwatch, real_pause};
use crate::config::configuration::Config;
use crate::config::spelling::closest;
use crate::daemon::pardon::{lifted, pardon_stopped};
use crate::fetch::host_group::host_group;
use crate::store::StoreError;
use crate::store::reader::{Reader, ask_pardon};
use tidewatch_core::engine::event::Pardon;

use super::error::CliError;
use super::log;
use super::process::runtime;

/// Options of `pardon`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name of a source, to lift its Retry-After and backoff; or a host, to lift the pause of its site.
    #[arg(value_name = "HOST|SOURCE")]
    name: String,
}

/// Time limit for the daemon to respond.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// Lifts the limits.
pub fn run(config: &Config, arguments: &Args, out: &mut dyn Write) -> Result<(), CliError> {
    let _log = log::start("warn");
    runtime()?.block_on(async {
        let clock = Clock::wall();
        let reader = Reader::open(&config.daemon.store).await?;
        let mut found = Vec::new();
        for (what, whom) in named(config, &reader, &arguments.name).await? {
            let answer = match pardon_stopped(config, whom.clone(), &clock).await {
                Ok(answer) => answer,
                Err(StoreError::InUse(_)) => ask_daemon(config, &reader, &whom, &clock).await?,
                Err(error) => return Err(error.into()),
            };
            found.extend(lifted(&answer).map(|limits| format!("{what}: lifted {limits}")));
        }
        if found.is_empty() {
            let name = &arguments.name;
            return Err(CliError::Refused(format!(
                "`{name}` has no Retry-After, backoff or pause to lift; `tidewatch explain` shows what delays a source"
            )));
        }
        for line in found {
            writeln!(out, "{line}")?;
        }
        Ok(())
    })
}

/// What has this name: a source, a site, or both.
async fn named(config: &Config, reader: &Reader, name: &str) -> Result<Vec<(String, Pardon)>, CliError> {
    let rows = reader.sources().await?;
    let mut hosts = reader.host_groups().await?;
    let urls = rows.iter().map(|row| row.adopted_url.as_deref().unwrap_or(&row.url));
    hosts.extend(urls.filter_map(|url| Some(host_group(&Url::parse(url).ok()?).key.to_string())));
    let mut found = Vec::new();
    if let Some(row) = rows.iter().find(|row| row.name == name) {
        found.push((format!("source {name}"), Pardon::Source(row.id)));
    }
    // A host of the site names the site.
    let group = Url::parse(&format!("http://{name}/")).map(|url| host_group(&url).key.to_string());
    let site = hosts.iter().find(|host| *host == name || group.as_ref().is_ok_and(|group| group == *host));
    if let Some(site) = site {
        found.push((format!("site {site}"), Pardon::Host(site.as_str().into())));
    }
    if !found.is_empty() {
        return Ok(found);
    }
    if config.sources.iter().any(|source| *source.name == *name) {
        return Err(CliError::Refused(format!("`{name}` is not in the store yet; is the daemon running?")));
    }
    let names = rows.iter().map(|row| row.name.as_str()).chain(hosts.iter().map(String::as_str));
    let hint = closest(name, names).map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
    Err(CliError::Refused(format!("no source and no site is called `{name}`{hint}")))
}

async fn ask_daemon(
    config: &Config,
    reader: &Reader,
    whom: &Pardon,
    clock: &Clock,
) -> Result<String, CliError> {
    let request = ask_pardon(&config.daemon.store, whom, clock.now()).await?;
    let stopwatch = Stopwatch::start();
    while stopwatch.elapsed() < ANSWER_LIMIT {
        if let Some(answer) = reader.pardon_answer(request).await? {
            return Ok(answer);
        }
        real_pause(Duration::from_millis(100)).await;
    }
    Err(CliError::Refused("the running daemon has not answered in time; see its log".to_owned()))
}
