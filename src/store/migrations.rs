//! The steps that create a store or bring an older one up to date, compiled in.

use std::sync::LazyLock;

use sqlx::SqlSafeStr;
use sqlx::migrate::{Migration, MigrationType, Migrator};

/// File name and text of a migration.
macro_rules! file {
    ($name:literal) => {
        ($name, include_str!(concat!("../../migrations/", $name, ".sql")))
    };
}

/// All files of `migrations/`, oldest first. A file is never changed after a release.
const FILES: [(&str, &str); 29] = [
    file!("0001_store"),
    file!("0002_rhythm"),
    file!("0003_plans"),
    file!("0004_bursts"),
    file!("0005_measures"),
    file!("0006_fleet"),
    file!("0007_plan_times"),
    file!("0008_habits"),
    file!("0009_deliveries"),
    file!("0010_rules"),
    file!("0011_deadlines"),
    file!("0012_early_probes"),
    file!("0013_fleet_prices"),
    file!("0014_predictions"),
    file!("0015_rhythm_changes"),
    file!("0016_batches"),
    file!("0017_unchanged"),
    file!("0018_items_present"),
    file!("0019_estimates"),
    file!("0020_last_items"),
    file!("0021_bounds"),
    file!("0022_clock"),
    file!("0023_network"),
    file!("0025_page_read_as"),
    file!("0026_lines"),
    file!("0027_unread"),
    file!("0028_crash_suspects"),
    file!("0029_robots_of_redirects"),
    file!("0030_models_clock"),
];

/// Runs the migrations that a store lacks.
pub static MIGRATIONS: LazyLock<Migrator> = LazyLock::new(|| {
    Migrator::with_migrations(FILES.iter().map(|&(name, sql)| migration(name, sql)).collect())
});

/// A migration by its file's name, `VERSION_DESCRIPTION`.
fn migration(name: &'static str, sql: &'static str) -> Migration {
    let (version, description) = name.split_once('_').expect("VERSION_DESCRIPTION");
    Migration::new(
        version.parse().expect("a number before the underscore"),
        description.replace('_', " ").into(),
        MigrationType::Simple,
        sql.into_sql_str(),
        false,
    )
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// sqlx's own reader of the folder agrees on versions, descriptions and checksums.
    #[tokio::test]
    async fn every_file_of_the_folder_is_listed() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
        let in_folder = Migrator::new(folder).await.unwrap();
        let facts = |migrator: &Migrator| {
            let facts =
                migrator.iter().map(|it| (it.version, it.description.to_string(), it.checksum.to_vec()));
            facts.collect::<Vec<_>>()
        };
        assert_eq!(facts(&MIGRATIONS), facts(&in_folder));
    }
}
