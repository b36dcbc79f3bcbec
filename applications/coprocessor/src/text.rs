//! Text search: a worker's share of the corpus into an index, and queries of it.

use std::io;
use std::sync::Arc;

use tantivy::collector::TopDocs;
use tantivy::query::QueryParser;
use tantivy::schema::{Field, STORED, Schema, TEXT, Value};
use tantivy::{Index, IndexReader, IndexSettings, TantivyDocument, doc};

use crate::directory::FilesDirectory;
use crate::files::Files;

/// Memory that the index's writer may fill before it writes a segment.
const WRITER_BYTES: usize = 64 << 20;
/// Texts that a query finds at most.
const FOUND_MAX: usize = 10;

/// What a worker has done.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Indexed {
    pub files: usize,
    pub bytes: usize,
}

fn schema() -> (Schema, Field, Field) {
    let mut schema = Schema::builder();
    let name = schema.add_text_field("name", STORED);
    let body = schema.add_text_field("body", TEXT);
    (schema.build(), name, body)
}

/// Indexes every `workers`-th text of `from`, beginning at `worker`, into the empty directory `into`.
///
/// # Errors
/// As of files, and of the index.
pub fn index(
    files: &Arc<dyn Files>,
    from: &str,
    into: &str,
    (worker, workers): (usize, usize),
) -> io::Result<Indexed> {
    let (schema, name, body) = schema();
    let directory = FilesDirectory::new(Arc::clone(files), into);
    let index =
        Index::create(directory, schema, IndexSettings::default()).map_err(io::Error::other)?;
    let mut writer = index.writer_with_num_threads(1, WRITER_BYTES).map_err(io::Error::other)?;
    let mut names = files.list(from)?;
    names.retain(|name| name.ends_with(".txt"));
    names.sort();
    let mut done = Indexed::default();
    let own: Vec<String> = names.into_iter().skip(worker).step_by(workers).collect();
    let paths: Vec<String> = own.iter().map(|text| format!("{from}/{text}")).collect();
    files.read_each(&paths, &mut |place, bytes| {
        done.files += 1;
        done.bytes += bytes.len();
        let read = String::from_utf8_lossy(bytes);
        let document = doc!(name => own[place].as_str(), body => read.as_ref());
        writer.add_document(document).map_err(io::Error::other).map(|_| ())
    })?;
    writer.commit().map_err(io::Error::other)?;
    writer.wait_merging_threads().map_err(io::Error::other)?;
    Ok(done)
}

/// An index that answers queries.
pub struct Searched {
    reader: IndexReader,
    parser: QueryParser,
    name: Field,
}

impl Searched {
    /// Opens the index that [`index`] made.
    ///
    /// # Errors
    /// As of files, and of the index.
    pub fn open(files: &Arc<dyn Files>, at: &str) -> io::Result<Self> {
        let (_, name, body) = schema();
        let index =
            Index::open(FilesDirectory::new(Arc::clone(files), at)).map_err(io::Error::other)?;
        let reader = index.reader().map_err(io::Error::other)?;
        Ok(Self { parser: QueryParser::for_index(&index, vec![body]), reader, name })
    }

    /// Texts that have the words of a query, the best first: names in lines.
    pub fn answer(&self, query: &[u8]) -> Vec<u8> {
        self.find(&String::from_utf8_lossy(query)).unwrap_or_default().join("\n").into_bytes()
    }

    fn find(&self, query: &str) -> tantivy::Result<Vec<String>> {
        let searcher = self.reader.searcher();
        let query = self.parser.parse_query_lenient(query).0;
        let mut names = Vec::new();
        for (_, address) in searcher.search(&query, &TopDocs::with_limit(FOUND_MAX))? {
            let found: TantivyDocument = searcher.doc(address)?;
            names.extend(
                found.get_first(self.name).and_then(|value| value.as_str()).map(str::to_owned),
            );
        }
        Ok(names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::plain::Plain;

    #[test]
    fn every_text_is_in_one_workers_index_and_found_by_its_words() {
        let root = std::env::temp_dir().join(format!("heliostat-text-{}", std::process::id()));
        std::fs::create_dir_all(root.join("texts")).unwrap();
        for (number, text) in
            ["mirror and light", "light", "a core", "a kernel core"].iter().enumerate()
        {
            std::fs::write(root.join(format!("texts/{number}.txt")), text).unwrap();
        }
        let files: Arc<dyn Files> = Arc::new(Plain::new(root.clone()));
        let mut found = Vec::new();
        for worker in 0..2 {
            let at = format!("index{worker}");
            std::fs::create_dir(root.join(&at)).unwrap();
            assert_eq!(index(&files, "texts", &at, (worker, 2)).unwrap().files, 2);
            found.push(Searched::open(&files, &at).unwrap().answer(b"light"));
        }
        assert_eq!(found, [b"0.txt".to_vec(), b"1.txt".to_vec()]);
        std::fs::remove_dir_all(root).unwrap();
    }
}
