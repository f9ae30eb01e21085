//! What the elements of RSS and Atom mean.
//!
//! Exists because eight versions of two formats, and the modules they borrow from, name the same
//! few fields differently. Knows names and namespaces. Must not know how documents are read.

/// Which family a document belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Flavour {
    /// RSS 0.9x, 1.0, 2.0.
    #[default]
    Rss,
    /// Atom 0.3, 1.0.
    Atom,
}

/// A namespace, as far as it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Space {
    /// The format's own names: any RSS namespace, or none.
    #[default]
    Core,
    Atom,
    Content,
    DublinCore,
    Syndication,
    Other,
}

impl Space {
    /// The namespace with this name.
    pub(super) fn of_uri(uri: &str) -> Self {
        let uri = uri.trim();
        match uri {
            "" | "http://purl.org/rss/1.0/" | "http://backend.userland.com/rss2" => Self::Core,
            // RSS 0.90 and its kin.
            _ if uri.contains("netscape.com/") || uri.contains("channel.netscape") => Self::Core,
            _ if uri.eq_ignore_ascii_case("http://www.w3.org/2005/Atom") => Self::Atom,
            _ if uri.starts_with("http://purl.org/atom/ns") => Self::Atom,
            "http://purl.org/rss/1.0/modules/content/" => Self::Content,
            "http://purl.org/dc/elements/1.1/" | "http://purl.org/dc/terms/" => Self::DublinCore,
            "http://purl.org/rss/1.0/modules/syndication/" => Self::Syndication,
            _ => Self::Other,
        }
    }

    /// What an undeclared prefix usually stands for.
    pub(super) fn by_custom(prefix: &str) -> Self {
        match prefix {
            "rss" => Self::Core,
            "atom" | "a10" | "atom10" => Self::Atom,
            "content" => Self::Content,
            "dc" | "dcterms" => Self::DublinCore,
            "sy" | "syn" => Self::Syndication,
            _ => Self::Other,
        }
    }
}

/// A field whose text is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    FeedTitle,
    Ttl,
    Hour,
    Day,
    Period,
    Frequency,
    Title,
    Link,
    Id,
    Summary,
    Content,
    Published,
    Updated,
    Author,
    Category,
}

/// What an open element is to the reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// `rss`, `rdf:RDF`: holds a channel, in RSS 1.0 also items.
    Root,
    /// `channel`, `feed`.
    Channel,
    /// `item`, `entry`.
    Item,
    SkipHours,
    SkipDays,
    /// A wanted field.
    Field(Field),
    /// Markup inside a wanted field.
    Inner,
    /// Of no interest, with all it holds.
    Ignored,
}

impl Flavour {
    /// The role of an element by its parent's, its namespace and its name in lower case.
    pub(super) fn role(self, parent: Role, space: Space, name: &str) -> Role {
        // In an Atom feed, Atom's names are the format's own.
        let space = if self == Self::Atom && space == Space::Atom { Space::Core } else { space };
        match parent {
            Role::Field(_) | Role::Inner => Role::Inner,
            Role::Root => match (space, name) {
                (Space::Core, "channel") => Role::Channel,
                (Space::Core, "item") => Role::Item,
                _ => Role::Ignored,
            },
            Role::Channel => self.in_channel(space, name),
            Role::SkipHours if name == "hour" => Role::Field(Field::Hour),
            Role::SkipDays if name == "day" => Role::Field(Field::Day),
            Role::Item => self.in_item(space, name).map_or(Role::Ignored, Role::Field),
            Role::SkipHours | Role::SkipDays | Role::Ignored => Role::Ignored,
        }
    }

    fn in_channel(self, space: Space, name: &str) -> Role {
        match (space, name) {
            (Space::Core, "item") if self == Self::Rss => Role::Item,
            (Space::Core, "entry") if self == Self::Atom => Role::Item,
            (Space::Core, "title") => Role::Field(Field::FeedTitle),
            (Space::Core, "ttl") => Role::Field(Field::Ttl),
            (Space::Core, "skiphours") => Role::SkipHours,
            (Space::Core, "skipdays") => Role::SkipDays,
            (Space::Syndication, "updateperiod") => Role::Field(Field::Period),
            (Space::Syndication, "updatefrequency") => Role::Field(Field::Frequency),
            _ => Role::Ignored,
        }
    }

    fn in_item(self, space: Space, name: &str) -> Option<Field> {
        Some(match (self, space, name) {
            (_, Space::Core, "title") => Field::Title,
            (_, Space::Core, "link") | (Self::Rss, Space::Atom, "link") => Field::Link,
            (Self::Rss, Space::Core, "guid") | (Self::Atom, Space::Core, "id") => Field::Id,
            (Self::Rss, Space::Core | Space::DublinCore, "description") => Field::Summary,
            (_, Space::Core, "summary") => Field::Summary,
            (Self::Rss, Space::Content, "encoded") => Field::Content,
            (Self::Atom, Space::Core, "content") => Field::Content,
            (_, Space::Core, "pubdate" | "published" | "issued" | "created") => Field::Published,
            (_, Space::DublinCore, "date" | "issued" | "created") => Field::Published,
            (Self::Rss, Space::Atom, "published") => Field::Published,
            (_, Space::Core, "updated" | "modified") => Field::Updated,
            (_, Space::DublinCore, "modified") | (Self::Rss, Space::Atom, "updated") => Field::Updated,
            (_, Space::Core, "author") | (_, Space::DublinCore, "creator") => Field::Author,
            (_, Space::Core, "category") | (_, Space::DublinCore, "subject") => Field::Category,
            _ => return None,
        })
    }

    /// What an item's tag looks like when searched for in broken text.
    pub(super) fn item_tag(self) -> &'static str {
        match self {
            Self::Rss => "<item",
            Self::Atom => "<entry",
        }
    }

    /// The element that the clean document uses for a field.
    pub(super) fn clean_name(self, field: Field) -> &'static str {
        match (self, field) {
            (_, Field::FeedTitle | Field::Title) => "title",
            (_, Field::Link) => "link",
            (Self::Rss, Field::Id) => "guid",
            (Self::Atom, Field::Id) => "id",
            (Self::Rss, Field::Summary) => "description",
            (Self::Atom, Field::Summary) => "summary",
            (Self::Rss, Field::Content) => "content:encoded",
            (Self::Atom, Field::Content) => "content",
            (Self::Rss, Field::Published) => "pubDate",
            (Self::Atom, Field::Published) => "published",
            (_, Field::Updated) => "updated",
            // Read here and not passed on.
            (_, Field::Ttl | Field::Hour | Field::Day | Field::Period | Field::Frequency) => "hint",
            (_, Field::Author | Field::Category) => "label",
        }
    }
}
