//! Values by the number of their source.
//!
//! Every event needs its source several times. Numbers are given in order and hardly ever missing, so a source is
//! found by its place in a block of neighbours. Takes half the memory of a hash map. Iterates in the order of the
//! numbers. Must not know what a source is.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::source_id::SourceId;

/// Sources of a block.
const BLOCK: usize = 512;

/// Values by source.
#[derive(Debug, Clone)]
pub struct SourceTable<T> {
    /// By the number of their first source, divided by [`BLOCK`].
    blocks: BTreeMap<i64, Vec<Option<T>>>,
    len: usize,
}

impl<T> Default for SourceTable<T> {
    fn default() -> Self {
        Self { blocks: BTreeMap::new(), len: 0 }
    }
}

/// The block of a source, and its place there.
fn place(id: SourceId) -> (i64, usize) {
    let block = BLOCK as i64;
    (id.0.div_euclid(block), id.0.rem_euclid(block) as usize)
}

impl<T> SourceTable<T> {
    /// The number of sources.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no source.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The value of a source.
    pub fn get(&self, id: &SourceId) -> Option<&T> {
        let (block, place) = place(*id);
        self.blocks.get(&block)?.get(place)?.as_ref()
    }

    /// The value of a source, to be changed.
    pub fn get_mut(&mut self, id: &SourceId) -> Option<&mut T> {
        let (block, place) = place(*id);
        self.blocks.get_mut(&block)?.get_mut(place)?.as_mut()
    }

    /// Adds a source. Returns the one that it replaces.
    pub fn insert(&mut self, id: SourceId, value: T) -> Option<T> {
        let (block, place) = place(id);
        let block = self.blocks.entry(block).or_default();
        if block.len() <= place {
            block.resize_with(place + 1, || None);
        }
        let before = block[place].replace(value);
        self.len += usize::from(before.is_none());
        before
    }

    /// Removes a source, and returns its value.
    pub fn remove(&mut self, id: &SourceId) -> Option<T> {
        let (block, place) = place(*id);
        let removed = self.blocks.get_mut(&block)?.get_mut(place)?.take();
        self.len -= usize::from(removed.is_some());
        removed
    }

    /// All sources with their values.
    pub fn iter(&self) -> impl Iterator<Item = (SourceId, &T)> {
        self.blocks.iter().flat_map(|(&block, sources)| {
            let numbers = block * BLOCK as i64..;
            numbers.zip(sources).filter_map(|(id, source)| Some((SourceId(id), source.as_ref()?)))
        })
    }

    /// All values.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.blocks.values().flatten().filter_map(Option::as_ref)
    }

    /// All values, to be changed.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.blocks.values_mut().flatten().filter_map(Option::as_mut)
    }
}

/// As a map.
impl<T: Serialize> Serialize for SourceTable<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        let mut map = serializer.serialize_map(Some(self.len))?;
        for (id, value) in self.iter() {
            map.serialize_entry(&id, value)?;
        }
        map.end()
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for SourceTable<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Entries<T> {
            type Value = SourceTable<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("sources by number")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut table = SourceTable::default();
                while let Some((id, value)) = map.next_entry()? {
                    table.insert(id, value);
                }
                Ok(table)
            }
        }
        deserializer.deserialize_map(Entries(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_holds_what_a_map_holds_in_the_same_order(
            steps in prop::collection::vec((-2_000_i64..5_000, any::<bool>()), 0..300)
        ) {
            let (mut table, mut map) = (SourceTable::default(), BTreeMap::new());
            for (n, (id, insert)) in steps.into_iter().enumerate() {
                let id = SourceId(id);
                if insert {
                    table.insert(id, n);
                    map.insert(id, n);
                } else {
                    prop_assert_eq!(table.remove(&id), map.remove(&id));
                }
                prop_assert_eq!(table.get(&id).copied(), map.get(&id).copied());
                prop_assert_eq!((table.len(), table.is_empty()), (map.len(), map.is_empty()));
            }
            let held: Vec<_> = table.iter().map(|(id, n)| (id, *n)).collect();
            prop_assert_eq!(held, map.into_iter().collect::<Vec<_>>());
            let again: SourceTable<usize> =
                postcard::from_bytes(&postcard::to_allocvec(&table).unwrap()).unwrap();
            prop_assert!(again.iter().eq(table.iter()));
            prop_assert!(again.values().eq(table.values()));
        }
    }
}
