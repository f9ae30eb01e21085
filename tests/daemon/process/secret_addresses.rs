//! A token in an address with `secret_url` appears nowhere but in the store's columns of addresses.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::daemon::Home;
use crate::waiting::until;
use tidewatch_fixtures::loopback::{LoopbackServer, Reply};
use tidewatch_fixtures::source_list::source_with_budget;

/// A few probes a second.
const BUDGET: &str = "probes = 5, per = \"1s\", min_spacing = \"100ms\"";

const TOKEN: &str = "hunter2";

/// Columns that the daemon needs as they are.
const NEEDED: [&str; 4] = ["url", "adopted_url", "moving_to", "validators_url"];

#[tokio::test]
async fn a_token_in_an_address_is_neither_logged_shown_stored_nor_delivered() {
    let changed = Arc::new(AtomicBool::new(false));
    let is_changed = Arc::clone(&changed);
    let web = LoopbackServer::start(move |seen| {
        let more = is_changed.load(Ordering::SeqCst);
        let item = |name: &str, link: &str| {
            format!("<item><guid isPermaLink=\"false\">{name}</guid><title>{name}</title>{link}</item>")
        };
        match seen.path.split('?').next().unwrap_or_default() {
            "/robots.txt" => Reply::new(404),
            "/hop" => Reply::new(301).header("Location", "/landed?token=hunter2"),
            "/landed" => Reply::ok(format!("<title>A page</title><p>changed: {more}</p>"))
                .header("Content-Type", "text/html")
                .header("ETag", if more { "\"b\"" } else { "\"a\"" }),
            "/loop" => Reply::new(302).header("Location", "/loop?token=hunter2"),
            "/feed" => {
                let links = ["", "<link></link>", "<link>?n=1</link>", "<link>/x</link>"];
                let new = links.iter().enumerate().filter(|_| more);
                let new: String = new.map(|(n, link)| item(&format!("new {n}"), link)).collect();
                Reply::ok(format!(
                    "<rss version=\"2.0\"><channel><title>t</title>{new}{}</channel></rss>",
                    item("old", "")
                ))
            }
            _ => Reply::new(404),
        }
    })
    .await;
    let hook = LoopbackServer::start(|_| Reply::new(204)).await;
    let home = Home::new();
    let secret = |name: &str, path: &str, more: &str| {
        let url = web.url(&format!("{path}?token={TOKEN}"));
        source_with_budget(name, &url, BUDGET) + "secret_url = true\n" + more
    };
    let nowhere = format!("http://127.0.0.1:1/?token={TOKEN}");
    home.write(&[
        secret("feed", "/feed", ""),
        secret("page", "/hop", "kind = \"page\"\n"),
        secret("direct", "/landed", "kind = \"page\"\n"),
        secret("loop", "/loop", ""),
        secret("missing", "/missing", ""),
        source_with_budget("nowhere", &nowhere, BUDGET) + "secret_url = true\n",
        format!(
            "[[profile]]\nname = \"p\"\nsources = [\"feed\", \"page\", \"direct\"]\n[[profile.rule]]\nname = \"each\"\n\
             query = {{ fields = [\"title\", \"link\"] }}\nlife = {{ window = \"1s\" }}\ndeliver = [\"webhook:hook\"]\n\
             [deliver.hook]\nwebhook = \"{}\"\nallow_private = true\n",
            hook.url("/hook")
        ),
    ]);
    let mut daemon = home.start_with_settings(&["--record", "incident.rec"], &[("TIDEWATCH_LOG", "trace")]);
    home.until("SELECT count(*) FROM sources WHERE last_probe_at IS NOT NULL", |probed| probed == 6).await;
    changed.store(true, Ordering::SeqCst);
    until("the deliveries", || hook.requests().len() >= 3).await;
    // A fault beside the address.
    let good = std::fs::read_to_string(home.config()).unwrap();
    std::fs::write(
        home.config(),
        good.replace("[[source]]\nname = \"feed\"\n", "[[source]]\nname = \"\"\n"),
    )
    .unwrap();
    daemon.signal("HUP");
    home.until("SELECT count(*) FROM events WHERE kind = 'reload_refused'", |n| n == 1).await;
    std::fs::write(home.config(), good).unwrap();
    let mut shown = Vec::new();
    for arguments in [
        &["status", "--json"][..],
        &["status"],
        &["explain", "page"],
        &["explain", "feed", "--json"],
        &["export"],
        &["deliveries", "--json"],
        &["match", "page", "--json"],
        &["probe", "direct", "--dry-run"],
    ] {
        let output = home.run(arguments).await;
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        shown.push((arguments.join(" "), String::from_utf8(output.stdout).unwrap()));
    }
    daemon.stop().await;

    for request in hook.requests() {
        shown.push(("a delivery".to_owned(), String::from_utf8(request.body).unwrap()));
    }
    shown.push(("the log".to_owned(), daemon.log()));
    let recording = std::fs::read(home.path("incident.rec")).unwrap();
    shown.push(("the recording".to_owned(), String::from_utf8_lossy(&recording).into_owned()));
    for (table, column) in home.rows::<(String, String)>(
        "SELECT t.name, c.name FROM sqlite_schema t JOIN pragma_table_info(t.name) c WHERE t.type = 'table'",
    ).await {
        if NEEDED.contains(&column.as_str()) {
            continue;
        }
        let query = format!("SELECT CAST(\"{column}\" AS TEXT) FROM \"{table}\" WHERE CAST(\"{column}\" AS TEXT) LIKE '%{TOKEN}%'");
        let found = home.texts(query).await;
        shown.push((format!("{table}.{column}"), found.join("\n")));
    }
    let leaks: Vec<(&str, &str)> = shown
        .iter()
        .filter_map(|(place, text)| Some((place.as_str(), text.lines().find(|line| line.contains(TOKEN))?)))
        .collect();
    assert!(leaks.is_empty(), "{leaks:#?}");
    assert!(
        !daemon.log().contains("connecti"),
        "libraries that send requests are not logged: {}",
        daemon.log()
    );
    let links: Vec<(Option<String>,)> = home.rows("SELECT link FROM updates ORDER BY link").await;
    let links: Vec<String> = links.into_iter().filter_map(|(link,)| link).collect();
    for path in ["/landed", "/feed?n=1"] {
        assert!(links.contains(&web.url(path).to_string()), "{links:?}");
    }
}
