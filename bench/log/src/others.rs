//! Other logs and stores, each as its own pages say that it is used for durable appends.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use heed::types::{Bytes, U64};
use heed::{byteorder::BigEndian, CommitOrAbort, Database, Env, EnvOpenOptions};
use okaywal::{LogVoid, WriteAheadLog};
use redb::TableDefinition;

use crate::way::{Failure, Way};

/// Keys come round, so that a store does not grow while it is measured.
const KEYS: u64 = 1000;
/// Bytes that LMDB may map.
const MAP_BYTES: usize = 4 << 30;
const TABLE: TableDefinition<u64, &[u8]> = TableDefinition::new("log");

/// A write-ahead log in segments; commits of several threads share a sync.
pub struct OkayWal(WriteAheadLog);

impl OkayWal {
    pub fn new(folder: &Path) -> Result<OkayWal, Failure> {
        Ok(OkayWal(WriteAheadLog::recover(folder.join("wal"), LogVoid)?))
    }
}

impl Way for OkayWal {
    fn append(&self, payload: &[u8]) -> Result<(), Failure> {
        let mut entry = self.0.begin_entry()?;
        entry.write_chunk(payload)?;
        entry.commit()?;
        Ok(())
    }
}

/// A store of B-trees; one writer at a time.
pub struct Redb {
    database: redb::Database,
    next: AtomicU64,
}

impl Redb {
    pub fn new(folder: &Path) -> Result<Redb, Failure> {
        let database = redb::Database::create(folder.join("store.redb"))?;
        Ok(Redb { database, next: AtomicU64::new(0) })
    }
}

impl Way for Redb {
    fn append(&self, payload: &[u8]) -> Result<(), Failure> {
        let transaction = self.database.begin_write()?;
        let key = self.next.fetch_add(1, Ordering::Relaxed) % KEYS;
        transaction.open_table(TABLE)?.insert(key, payload)?;
        transaction.commit()?;
        Ok(())
    }
}

/// A store of B-trees in a mapping; one writer at a time.
pub struct Lmdb {
    environment: &'static Env,
    database: Database<'static, U64<BigEndian>, Bytes>,
    next: AtomicU64,
}

impl Lmdb {
    pub fn new(folder: &Path) -> Result<Lmdb, Failure> {
        let path = folder.join("lmdb");
        std::fs::create_dir_all(&path)?;
        // SAFETY: nobody else opens or changes the files of this folder, which is new.
        let environment = unsafe { EnvOpenOptions::new().map_size(MAP_BYTES).open(path)? };
        // A database borrows its environment, and both live as long as the program.
        let environment: &'static Env = Box::leak(Box::new(environment));
        let database = environment
            .create_databases_and_commit(environment.write_txn()?, |databases, transaction| {
                let options = databases.database_options().types::<U64<BigEndian>, Bytes>();
                options.create(transaction).map(CommitOrAbort::<_, ()>::Commit)
            })?
            .unwrap_commit();
        Ok(Lmdb { environment, database, next: AtomicU64::new(0) })
    }
}

impl Way for Lmdb {
    fn append(&self, payload: &[u8]) -> Result<(), Failure> {
        let mut transaction = self.environment.write_txn()?;
        let key = self.next.fetch_add(1, Ordering::Relaxed) % KEYS;
        self.database.put(&mut transaction, &key, payload)?;
        transaction.commit()?;
        Ok(())
    }
}
