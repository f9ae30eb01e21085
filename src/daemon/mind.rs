//! What is believed of a source's rhythm, from the store to one look and back.
//!
//! Exists because beliefs are only needed while a probe is read, and so are not kept in memory. Knows
//! how they are stored; must not know what becomes of what a look says.

use std::sync::Arc;

use crate::fleet::beliefs::{Aside, Beliefs, Foretold, Heard};
use crate::fleet::learn::Look;
use crate::fleet::making::WELL_FOUNDED;
use crate::rate::burst::watch::Watch;
use crate::rate::cyclic::Rate;
use crate::rate::habits::diary::Diary;
use crate::store::reader::Dossier;
use crate::store::record::BeliefsRecord;
use crate::time::Timestamp;

use super::muster::Learning;

/// Beliefs on their way.
#[derive(Debug, Clone)]
pub struct Mind {
    learning: Arc<Learning>,
    beliefs: Beliefs,
    rate: Option<Rate>,
    newest: Option<Timestamp>,
}

impl Mind {
    /// As it was left by the last look.
    pub fn read(learning: &Arc<Learning>, dossier: &Dossier, now: Timestamp) -> Self {
        let history = learning.history(dossier.history.as_deref(), now);
        let aside = dossier.aside.as_deref().and_then(|bytes| Aside::from_bytes(bytes, &history));
        let watch = dossier.watch.as_deref().and_then(Watch::from_bytes).unwrap_or_default();
        let diary = dossier.diary.as_deref().and_then(Diary::from_bytes).unwrap_or_default();
        let rate = dossier.rate.clone().filter(|known| known.updates >= WELL_FOUNDED);
        Self {
            learning: Arc::clone(learning),
            beliefs: Beliefs { history, watch, aside, diary },
            rate: rate.map(|known| known.rate),
            // Not after now: the clock may have been set back.
            newest: dossier.newest.map(|at| at.min(now)),
        }
    }

    /// Takes in a look. `modified` is when the server says that the document last changed: where it
    /// holds no dates, that is how old it is.
    pub fn look(&mut self, look: &Look<'_>, modified: Option<Timestamp>) -> Heard {
        let Learning { bursts, cycle, .. } = *self.learning;
        let foretold = self.rate.as_ref().map(|rate| Foretold { rate, params: bursts, cycle });
        let mut heard = self.beliefs.look(look, foretold.as_ref(), self.newest);
        heard.newest = heard.newest.or(modified.filter(|&at| at <= look.now));
        heard
    }

    /// As it is stored.
    pub fn record(&self, changed: Option<Timestamp>) -> BeliefsRecord {
        let Beliefs { history, watch, aside, diary } = &self.beliefs;
        BeliefsRecord {
            history: history.to_bytes(),
            watch: (*watch != Watch::default()).then(|| watch.to_bytes()),
            aside: aside.as_ref().map(Aside::to_bytes),
            diary: (*diary != Diary::default()).then(|| diary.to_bytes()),
            changed,
        }
    }
}
