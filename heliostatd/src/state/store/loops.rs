//! The server loops of areas: which session has which.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{channel, Receiver};
use std::sync::Arc;

use heliostat_abi::name::ObjectId;
use heliostat_abi::store::{AreaRights, DurableBy};
use heliostat_backend_block::{Device, Durability, FileDevice, OpenError, Options, SharedFile};
use heliostat_control::config::Store as Config;
use heliostat_server_loop::{Event, Events, Loops, NewSession, Order, Settings};
use heliostat_server_store::{Areas, NoDevice, StoreOrder};
use heliostat_service_grant::{Holder, Quota, Shares};

/// A session that is served.
#[derive(Clone, Copy)]
pub struct Served {
    /// By which loop.
    pub loop_number: usize,
    /// Whose share it counts against.
    pub holder: Holder,
}

/// A handle that a loop knows.
#[derive(Clone, Copy)]
struct Held {
    session: ObjectId,
    loop_number: usize,
    /// Whether the loop is to let go of it.
    is_closing: bool,
}

/// The loops' end in the event loop.
pub struct StoreLoops {
    /// The loops; none while the last of them end.
    pub loops: Option<Loops<Areas>>,
    /// Loops that have not said that they are gone.
    pub alive: usize,
    /// What they tell.
    pub events: Receiver<Event<Areas>>,
    /// Who is served.
    pub sessions: HashMap<ObjectId, Served>,
    /// Whose sessions they are.
    pub quota: Quota,
    /// Handles that loops know, until they have let go of them.
    handles: HashMap<ObjectId, Held>,
    serial: u64,
}

impl StoreLoops {
    /// Starts them, without a device; they ring when they have told something.
    ///
    /// # Errors
    /// What the kernel says of their threads and rings.
    pub fn start(
        config: &Config,
        shares: Shares,
        bell: Arc<OwnedFd>,
    ) -> std::io::Result<StoreLoops> {
        let (sender, receiver) = channel();
        let events = Events::new(sender, bell);
        let settings = Settings { loops: config.loops, cores: Vec::new(), by: None };
        let create = |_| Areas::new(Box::new(NoDevice), events.clone());
        let loops = Loops::start(&settings, &events, create)?;
        Ok(StoreLoops {
            alive: loops.each().len(),
            loops: Some(loops),
            events: receiver,
            sessions: HashMap::new(),
            quota: Quota::new(shares),
            handles: HashMap::new(),
            serial: 0,
        })
    }

    /// How many loops there are.
    pub fn count(&self) -> usize {
        self.loops.as_ref().map_or(0, |loops| loops.each().len())
    }

    /// Gives each loop a device of its own on the store's open file. What programs discard is given back
    /// only where the store gives back.
    ///
    /// # Errors
    /// There are no more descriptors, or the kernel has no ring.
    pub fn give_device(
        &self,
        file: &SharedFile,
        durable_by: DurableBy,
        does_discard: bool,
    ) -> Result<(), OpenError> {
        let options = Options { durability: Some(durability(durable_by)), ..Options::default() };
        let opened = (0..self.count()).map(|_| file.device(options));
        let devices = opened.collect::<Result<Vec<FileDevice>, OpenError>>()?;
        for (number, mut device) in devices.into_iter().enumerate() {
            if !does_discard {
                device.keep_discarded();
            }
            self.order(number, StoreOrder::Device(Box::new(device)));
        }
        Ok(())
    }

    /// Takes the device from each loop.
    pub fn take_device(&self) {
        self.tell_all(|| StoreOrder::Device(Box::new(NoDevice) as Box<dyn Device>));
    }

    /// The next number of a session.
    pub fn next_serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    /// Takes a session in: the loop with the fewest sessions has it until its end.
    pub fn begin(&mut self, id: ObjectId, holder: Holder, link: NewSession) {
        let Some(loops) = &self.loops else { return };
        let loop_number = loops.least_loaded(self.sessions.values().map(|it| it.loop_number));
        self.quota.take_anyway(holder, 1);
        self.sessions.insert(id, Served { loop_number, holder });
        loops.order(loop_number, Order::Begin(id, Box::new(link)));
    }

    /// A session has ended, or delegates no more. Its loop lets go of what it knows of it.
    pub fn end(&mut self, id: ObjectId) {
        let Some(served) = self.sessions.remove(&id) else { return };
        self.quota.give_back(served.holder, 1);
        let its = self.handles.iter().filter(|(_, held)| held.session == id);
        let its: Vec<ObjectId> = its.map(|(handle, _)| *handle).collect();
        its.into_iter().for_each(|handle| {
            self.close(handle);
        });
        if let Some(loops) = &self.loops {
            loops.order(served.loop_number, Order::End(id));
        }
    }

    /// Whether a loop has not let go yet of what it knew of a session.
    pub fn lets_go_of(&self, id: ObjectId) -> bool {
        self.handles.values().any(|held| held.session == id && held.is_closing)
    }

    /// Tells the loop of a session that it has a handle, if there is one.
    pub fn open(
        &mut self,
        session: ObjectId,
        handle: ObjectId,
        area: ObjectId,
        rights: AreaRights,
    ) {
        let Some(Served { loop_number, .. }) = self.sessions.get(&session).copied() else { return };
        self.handles.insert(handle, Held { session, loop_number, is_closing: false });
        self.order(loop_number, StoreOrder::Open { session, handle, area, rights });
    }

    /// Has a loop let go of a handle; false where none knows it.
    pub fn close(&mut self, handle: ObjectId) -> bool {
        let Some(held) = self.handles.get_mut(&handle) else { return false };
        let (session, loop_number) = (held.session, held.loop_number);
        if !std::mem::replace(&mut held.is_closing, true) {
            self.order(loop_number, StoreOrder::Close { session, handle });
        }
        true
    }

    /// A loop has let go of a handle.
    pub fn let_go(&mut self, handle: ObjectId) {
        self.handles.remove(&handle);
    }

    /// Tells all loops something.
    pub fn tell_all(&self, order: impl Fn() -> StoreOrder) {
        (0..self.count()).for_each(|number| self.order(number, order()));
    }

    fn order(&self, number: usize, order: StoreOrder) {
        if let Some(loops) = &self.loops {
            loops.order(number, Order::Service(order));
        }
    }
}

/// The way of durable writes, as devices name it.
pub fn durability(by: DurableBy) -> Durability {
    match by {
        DurableBy::Dsync => Durability::Dsync,
        DurableBy::Flush => Durability::Flush,
        DurableBy::DsyncAlone => Durability::DsyncAlone,
    }
}
