//! `tidewatch export`: the sources as OPML, for other feed readers.
//!
//! Groups become folders. OPML has no place for headers, budgets and policies, so they are left out.
//! Must not write secrets.

use std::collections::HashMap;
use std::io::{self, Write};

use quick_xml::escape::escape;

use crate::config::configuration::Config;
use crate::config::source::SourceConfig;
use tidewatch_core::observe::SourceKind;

/// Namespace of the attribute that keeps a source's name, so that an import restores it unchanged.
pub const NAMESPACE: &str = "urn:tidewatch:opml";

/// Writes all sources as OPML 2.0.
pub fn run(config: &Config, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, r#"<?xml version="1.0" encoding="UTF-8"?>"#)?;
    writeln!(out, r#"<opml version="2.0" xmlns:tidewatch="{NAMESPACE}">"#)?;
    writeln!(out, "  <head>\n    <title>tidewatch sources</title>\n  </head>\n  <body>")?;
    let mut order: Vec<Option<&str>> = Vec::new();
    let mut groups: HashMap<Option<&str>, Vec<&SourceConfig>> = HashMap::new();
    for source in &config.sources {
        let group = source.group.as_deref();
        groups
            .entry(group)
            .or_insert_with(|| {
                order.push(group);
                Vec::new()
            })
            .push(source);
    }
    for group in order {
        let sources = groups.get(&group).map_or(&[][..], Vec::as_slice);
        match group {
            None => outlines(sources, "    ", out)?,
            Some(name) => {
                writeln!(out, r#"    <outline text="{}">"#, escape(name))?;
                outlines(sources, "      ", out)?;
                writeln!(out, "    </outline>")?;
            }
        }
    }
    writeln!(out, "  </body>\n</opml>")
}

fn outlines(sources: &[&SourceConfig], indent: &str, out: &mut dyn Write) -> io::Result<()> {
    for source in sources {
        let url = source.shown(source.url.as_str());
        let (name, url) = (escape(&*source.name), escape(&url));
        // Readers subscribe to every xmlUrl, so a page must not have one.
        let address = match source.kind {
            SourceKind::Feed => format!(r#"type="rss" xmlUrl="{url}""#),
            SourceKind::Page => format!(r#"type="link" url="{url}""#),
        };
        writeln!(out, r#"{indent}<outline text="{name}" {address} tidewatch:name="{name}"/>"#)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use proptest::prelude::*;

    use super::*;
    use crate::cli::import;
    use crate::config::valid;

    fn config(text: &str) -> Config {
        valid::parse(&[(PathBuf::from("t.toml"), text.to_owned())]).unwrap_or_else(|f| panic!("{f}"))
    }

    fn opml(config: &Config) -> String {
        let mut out = Vec::new();
        run(config, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn listed(config: &Config) -> Vec<(String, String, Option<String>, SourceKind)> {
        let mut listed: Vec<_> = config
            .sources
            .iter()
            .map(|s| {
                (
                    s.name.to_string(),
                    s.url.as_str().to_owned(),
                    s.group.as_deref().map(str::to_owned),
                    s.kind,
                )
            })
            .collect();
        listed.sort_by(|a, b| a.0.cmp(&b.0));
        listed
    }

    #[test]
    fn groups_become_folders_and_text_is_escaped() {
        let config = config(
            "[[source]]\nname = \"A & <B>\"\nurl = \"https://example.org/?a=1&b=2\"\ngroup = \"n\\\"g\"\n\
             headers = { Authorization = \"hush\" }\n",
        );
        let text = opml(&config);
        assert!(
            text.contains("<outline text=\"n&quot;g\">\n      <outline text=\"A &amp; &lt;B&gt;\""),
            "{text}"
        );
        assert!(text.contains("xmlUrl=\"https://example.org/?a=1&amp;b=2\""), "{text}");
        assert!(!text.contains("hush"));
    }

    proptest! {
        #[test]
        fn an_import_restores_exported_sources(
            sources in prop::collection::hash_map(
                "[^\\p{C}\\p{Z}]([^\\p{C}]{0,20}[^\\p{C}\\p{Z}])?",
                ("[^\\p{C}\\p{Z}/?#\\\\]{0,12}", prop::option::of("[a-z&<\"' /]{0,5}[a-z]"), any::<bool>()),
                0..12,
            ),
        ) {
            let mut text = String::new();
            for (index, (name, (path, group, page))) in sources.into_iter().enumerate() {
                let quoted = |text: String| toml::Value::String(text).to_string();
                text.push_str("[[source]]\n");
                text.push_str(&format!("name = {}\n", quoted(name)));
                text.push_str(&format!("url = {}\n", quoted(format!("https://example.org/{index}/{path}"))));
                if let Some(group) = group {
                    text.push_str(&format!("group = {}\n", quoted(group.trim().to_owned())));
                }
                if page {
                    text.push_str("kind = \"page\"\n");
                }
            }
            let before = config(&text);
            let mut back = Vec::new();
            import::run(opml(&before).as_bytes(), &mut back, &mut Vec::new()).unwrap();
            let after = config(&String::from_utf8(back).unwrap());
            prop_assert_eq!(listed(&before), listed(&after));
        }
    }
}
