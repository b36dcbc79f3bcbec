//! Typed reading of one TOML table: each field has a place, a type and a range.
//!
//! A thin layer over the parsed document instead of derived deserialisation, because every error
//! must carry its line and allowed range, and unknown keys want a suggestion.

use toml::de::{DeTable, DeValue};
use toml::Spanned;

use super::error::{nearest, ConfigError, Fault};

/// The source text, to turn offsets into lines.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a>(pub(crate) &'a str);

impl<'a> Source<'a> {
    /// The whole text as a table; the error has the line and what is wrong with its syntax.
    pub(crate) fn document(self) -> Result<Spanned<DeTable<'a>>, ConfigError> {
        DeTable::parse(self.0).map_err(|error| ConfigError {
            line: self.line(error.span().map_or(0, |span| span.start)),
            key: String::new(),
            fault: Fault::Syntax(error.message().trim().to_owned()),
        })
    }

    pub(crate) fn line(self, offset: usize) -> usize {
        self.0.as_bytes().iter().take(offset).filter(|byte| **byte == b'\n').count() + 1
    }
}

/// One table with its full name, whose keys are among `known`.
pub(crate) struct Section<'a> {
    source: Source<'a>,
    name: String,
    start: usize,
    table: &'a DeTable<'a>,
}

/// One value with its full name.
pub(crate) struct Field<'a> {
    source: Source<'a>,
    name: String,
    value: &'a Spanned<DeValue<'a>>,
}

impl<'a> Section<'a> {
    /// The table, after every key in it was found among `known`.
    pub(crate) fn new(
        source: Source<'a>,
        name: &str,
        start: usize,
        table: &'a DeTable<'a>,
        known: &[&'static str],
    ) -> Result<Self, ConfigError> {
        let section = Self { source, name: name.to_owned(), start, table };
        for key in table.keys() {
            let word = key.get_ref().as_ref();
            if !known.contains(&word) {
                let fault =
                    Fault::UnknownKey { meant: nearest(word, known), known: known.to_vec() };
                let line = source.line(key.span().start);
                return Err(ConfigError { line, key: section.full(word), fault });
            }
        }
        Ok(section)
    }

    /// The whole document, of which somebody else has looked at the keys.
    pub(crate) fn whole(source: Source<'a>, table: &'a DeTable<'a>) -> Self {
        Self { source, name: String::new(), start: 0, table }
    }

    /// The value of a key, if it is there.
    pub(crate) fn field(&self, key: &str) -> Option<Field<'a>> {
        let (_, value) = self.table.iter().find(|(found, _)| found.get_ref().as_ref() == key)?;
        Some(Field { source: self.source, name: self.full(key), value })
    }

    /// The value of a key that must be there.
    pub(crate) fn required(&self, key: &str) -> Result<Field<'a>, ConfigError> {
        self.field(key).ok_or_else(|| ConfigError {
            line: self.source.line(self.start),
            key: self.full(key),
            fault: Fault::Missing,
        })
    }

    /// Reads a number into `into` if the key is there.
    pub(crate) fn number<T: TryFrom<u64>>(
        &self,
        key: &str,
        range: (u64, u64),
        into: &mut T,
    ) -> Result<(), ConfigError> {
        let Some(field) = self.field(key) else { return Ok(()) };
        let number = field.number(range)?;
        *into = T::try_from(number).map_err(|_| field.out_of(range, number.to_string()))?;
        Ok(())
    }

    fn full(&self, key: &str) -> String {
        if self.name.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.name)
        }
    }
}

impl<'a> Field<'a> {
    /// An error about this value.
    pub(crate) fn fault(&self, fault: Fault) -> ConfigError {
        let line = self.source.line(self.value.span().start);
        ConfigError { line, key: self.name.clone(), fault }
    }

    fn out_of(&self, (least, most): (u64, u64), found: String) -> ConfigError {
        self.fault(Fault::Range { least, most, found })
    }

    fn mistyped(&self, wanted: &'static str) -> ConfigError {
        self.fault(Fault::Type { wanted, found: self.value.get_ref().type_str() })
    }

    /// A whole number inside the range.
    pub(crate) fn number(&self, range: (u64, u64)) -> Result<u64, ConfigError> {
        let wanted = "a whole number";
        let found = self.value.get_ref().as_integer().ok_or_else(|| self.mistyped(wanted))?;
        let number = i128::from_str_radix(found.as_str(), found.radix())
            .map_err(|_| self.out_of(range, found.as_str().to_owned()))?;
        match u64::try_from(number) {
            Ok(number) if (range.0..=range.1).contains(&number) => Ok(number),
            _ => Err(self.out_of(range, number.to_string())),
        }
    }

    /// true or false.
    pub(crate) fn is_true(&self) -> Result<bool, ConfigError> {
        self.value.get_ref().as_bool().ok_or_else(|| self.mistyped("true or false"))
    }

    /// A text.
    pub(crate) fn text(&self) -> Result<&'a str, ConfigError> {
        self.value.get_ref().as_str().ok_or_else(|| self.mistyped("a text in quotes"))
    }

    /// One of the words that `choices` names.
    pub(crate) fn choice<T: Copy>(&self, choices: &[(&'static str, T)]) -> Result<T, ConfigError> {
        let word = self.text()?;
        let found = choices.iter().find(|(known, _)| *known == word).map(|(_, value)| *value);
        found.ok_or_else(|| {
            let known = choices.iter().map(|(known, _)| *known).collect();
            self.fault(Fault::Word { found: word.to_owned(), known })
        })
    }

    /// Every element of a list.
    pub(crate) fn list(&self) -> Result<Vec<Field<'a>>, ConfigError> {
        let array = self.value.get_ref().as_array().ok_or_else(|| self.mistyped("a list"))?;
        let element = |(place, value)| Field {
            source: self.source,
            name: format!("{}[{}]", self.name, place + 1),
            value,
        };
        Ok(array.iter().enumerate().map(element).collect())
    }

    /// A table whose keys are among `known`.
    pub(crate) fn section(&self, known: &[&'static str]) -> Result<Section<'a>, ConfigError> {
        let table = self.value.get_ref().as_table().ok_or_else(|| self.mistyped("a table"))?;
        Section::new(self.source, &self.name, self.value.span().start, table, known)
    }

    /// `true` or `false`.
    pub(crate) fn truth(&self) -> Result<bool, ConfigError> {
        self.value.get_ref().as_bool().ok_or_else(|| self.mistyped("true or false"))
    }

    /// True for a number.
    pub(crate) fn is_number(&self) -> bool {
        self.value.get_ref().is_integer()
    }
}
