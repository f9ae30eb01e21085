//! The meaning of RSS and Atom elements.
//!
//! Eight versions of two formats, and the modules they borrow from, name the same few fields differently.
//! This table maps names and namespaces to fields. Must not know how documents are read.

/// The family of a document's format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Flavour {
    /// RSS 0.9x, 1.0, 2.0.
    #[default]
    Rss,
    /// Atom 0.3, 1.0.
    Atom,
}

/// A namespace. All that carry no fields for us are `Other`.
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
    /// The namespace with this URI.
    pub(super) fn of_uri(uri: &str) -> Self {
        let uri = uri.trim();
        match uri {
            "" | "http://purl.org/rss/1.0/" | "http://backend.userland.com/rss2" => Self::Core,
            // RSS 0.90 and related versions.
            _ if uri.contains("netscape.com/") || uri.contains("channel.netscape") => Self::Core,
            _ if uri.eq_ignore_ascii_case("http://www.w3.org/2005/Atom") => Self::Atom,
            _ if uri.starts_with("http://purl.org/atom/ns") => Self::Atom,
            "http://purl.org/rss/1.0/modules/content/" => Self::Content,
            "http://purl.org/dc/elements/1.1/" | "http://purl.org/dc/terms/" => Self::DublinCore,
            "http://purl.org/rss/1.0/modules/syndication/" => Self::Syndication,
            _ => Self::Other,
        }
    }

    /// The customary meaning of an undeclared prefix.
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

/// A field whose text is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FeedField {
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

/// The role of an open element.
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
    /// A field to be read.
    Field(FeedField),
    /// Markup inside such a field.
    Inner,
    /// Skipped with all its content.
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
            Role::SkipHours if name == "hour" => Role::Field(FeedField::Hour),
            Role::SkipDays if name == "day" => Role::Field(FeedField::Day),
            Role::Item => self.in_item(space, name).map_or(Role::Ignored, Role::Field),
            Role::SkipHours | Role::SkipDays | Role::Ignored => Role::Ignored,
        }
    }

    fn in_channel(self, space: Space, name: &str) -> Role {
        match (space, name) {
            (Space::Core, "item") if self == Self::Rss => Role::Item,
            (Space::Core, "entry") if self == Self::Atom => Role::Item,
            (Space::Core, "title") => Role::Field(FeedField::FeedTitle),
            (Space::Core, "ttl") => Role::Field(FeedField::Ttl),
            (Space::Core, "skiphours") => Role::SkipHours,
            (Space::Core, "skipdays") => Role::SkipDays,
            (Space::Syndication, "updateperiod") => Role::Field(FeedField::Period),
            (Space::Syndication, "updatefrequency") => Role::Field(FeedField::Frequency),
            _ => Role::Ignored,
        }
    }

    fn in_item(self, space: Space, name: &str) -> Option<FeedField> {
        Some(match (self, space, name) {
            (_, Space::Core, "title") => FeedField::Title,
            (_, Space::Core, "link") | (Self::Rss, Space::Atom, "link") => FeedField::Link,
            (Self::Rss, Space::Core, "guid") | (Self::Atom, Space::Core, "id") => FeedField::Id,
            (Self::Rss, Space::Core | Space::DublinCore, "description") => FeedField::Summary,
            (_, Space::Core, "summary") => FeedField::Summary,
            (Self::Rss, Space::Content, "encoded") => FeedField::Content,
            (Self::Atom, Space::Core, "content") => FeedField::Content,
            (_, Space::Core, "pubdate" | "published" | "issued" | "created") => FeedField::Published,
            (_, Space::DublinCore, "date" | "issued" | "created") => FeedField::Published,
            (Self::Rss, Space::Atom, "published") => FeedField::Published,
            (_, Space::Core, "updated" | "modified") => FeedField::Updated,
            (_, Space::DublinCore, "modified") | (Self::Rss, Space::Atom, "updated") => FeedField::Updated,
            (_, Space::Core, "author") | (_, Space::DublinCore, "creator") => FeedField::Author,
            (_, Space::Core, "category") | (_, Space::DublinCore, "subject") => FeedField::Category,
            _ => return None,
        })
    }

    /// The start of an item's tag, for a search in broken text.
    pub(super) fn item_tag(self) -> &'static str {
        match self {
            Self::Rss => "<item",
            Self::Atom => "<entry",
        }
    }
}
