//! Image search: features of many images in a graph of neighbours (HNSW), and queries of it.

use std::io;
use std::sync::Arc;

use instant_distance::{Builder, HnswMap, Point, Search};

use crate::corpus::{Features, from_bytes, to_bytes};
use crate::files::{Files, read_all};

/// Images that a query finds.
const FOUND: usize = 10;

/// One image.
#[derive(Clone, Copy, Debug)]
struct Image(Features);

impl Point for Image {
    fn distance(&self, other: &Self) -> f32 {
        self.0.iter().zip(&other.0).map(|(one, two)| (one - two) * (one - two)).sum()
    }
}

/// A graph of neighbours that answers queries.
pub struct Searched {
    graph: HnswMap<Image, u32>,
}

impl Searched {
    /// Reads features and builds their graph.
    ///
    /// # Errors
    /// As of files.
    pub fn open(files: &Arc<dyn Files>, at: &str) -> io::Result<Self> {
        let images: Vec<Image> =
            from_bytes(&read_all(&**files, at)?).into_iter().map(Image).collect();
        let numbers = (0..u32::try_from(images.len()).map_err(io::Error::other)?).collect();
        Ok(Self {
            graph: Builder::default()
                .seed(1)
                .ef_construction(60)
                .ef_search(60)
                .build(images, numbers),
        })
    }

    /// The nearest images to the features in a query, the nearest first: numbers of four bytes.
    pub fn answer(&self, query: &[u8]) -> Vec<u8> {
        let Some(features) = from_bytes(query).first().copied() else { return Vec::new() };
        let mut search = Search::default();
        let found = self.graph.search(&Image(features), &mut search);
        found.take(FOUND).flat_map(|item| item.value.to_le_bytes()).collect()
    }
}

/// A query that asks for an image's neighbours.
pub fn query(features: &Features) -> Vec<u8> {
    to_bytes(std::slice::from_ref(features))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus;
    use crate::files::plain::Plain;

    #[test]
    fn the_nearest_of_an_image_is_itself_and_nonsense_finds_nothing() {
        let root = std::env::temp_dir().join(format!("heliostat-image-{}", std::process::id()));
        std::fs::create_dir_all(&root).unwrap();
        let images = corpus::features(500, 7);
        std::fs::write(root.join("features"), to_bytes(&images)).unwrap();
        let files: Arc<dyn Files> = Arc::new(Plain::new(root.clone()));
        let searched = Searched::open(&files, "features").unwrap();
        for number in [0, 123, 499] {
            let answer = searched.answer(&query(&images[number]));
            assert_eq!(answer[..4], u32::try_from(number).unwrap().to_le_bytes());
            assert_eq!(answer.len(), FOUND * 4);
        }
        assert!(searched.answer(b"nonsense").is_empty());
        std::fs::remove_dir_all(root).unwrap();
    }
}
