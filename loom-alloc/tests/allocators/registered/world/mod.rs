//! Stories of leases beside a naive account of the owner and content of each byte. Leases are taken
//! from several slabs, cut, joined, filled and read in pieces, posted over the software transport,
//! released in any order, and forgotten.

#![allow(unreachable_pub, clippy::unwrap_used, reason = "tests, also of a fuzz target: they fail by panicking")]

mod account;
mod step;

use std::collections::VecDeque;
use std::iter;
use std::mem;

use arbitrary::{Arbitrary, Unstructured};
use loom_alloc::allocator_api2::alloc::Global;
use loom_alloc::registered::{Lease, NotJoined, RegisteredSlab, SlabAttr};
use loom_alloc::{Owner, Shared, Sharing};
use loom_core::av::Av;
use loom_core::buffer::Buffer;
use loom_core::cq::{Cq, CqAttr};
use loom_core::deadline::Forever;
use loom_core::domain::Domain;
use loom_core::endpoint::{Endpoint, Source};
use loom_core::engine::op_table::OpKey;
use loom_core::engine::peer_table::Peer;
use loom_core::error::PostError;
use loom_core::registered::Registered;
use loom_core::scope;
use loom_core::soft::{Network, NetworkAttr, RequiredModes, Soft};

use account::{Account, Model};
use step::{Action, Read, Step, Write};

/// Limit of steps. Longer stories add no states.
const MOST: usize = 64;
/// Operations of the queue.
const DEPTH: usize = 8;
/// Maximum number of posted receives.
const WAITING: usize = 4;
/// Maximum length of a buffer, and so of a message.
const LONGEST: usize = 40;

#[derive(Arbitrary, Clone, Copy, Debug)]
struct Setting {
    shared: bool,
    slabs: u8,
    counts: [u8; 3],
    sizes: [u8; 3],
    aligns: [u8; 3],
}

impl Setting {
    fn attrs(&self) -> impl Iterator<Item = SlabAttr> {
        let Setting { slabs, counts, sizes, aligns, .. } = *self;
        (0..usize::from(slabs % 3) + 1).map(move |at| {
            let size = usize::from(sizes[at]) % LONGEST + 1;
            SlabAttr::new(usize::from(counts[at] % 4) + 1, size).align(1 << (aligns[at] % 6))
        })
    }
}

type Slab<L> = RegisteredSlab<'static, Soft<'static>, Box<[u8]>, Global, L>;
type Queue<'s, L> = Cq<'s, Soft<'static>, Lease<'s, L>>;

/// Endpoint that posts to itself.
struct Posts<'s, L: Sharing> {
    cq: Queue<'s, L>,
    endpoint: Endpoint<'s, Soft<'static>, Lease<'s, L>>,
    me: Peer,
}

struct World<'q, 's, L: Sharing> {
    slabs: &'s [Slab<L>],
    models: &'q mut [Model],
    posts: Posts<'s, L>,
    held: Vec<(Lease<'s, L>, Account)>,
    /// Posted receives, in their order.
    waiting: VecDeque<(OpKey, Account)>,
    forgotten: &'q mut Vec<Account>,
    fill: u8,
}

impl<'s, L: Sharing> World<'_, 's, L> {
    fn step(&mut self, Step { nth: n, action }: Step) -> &'static str {
        let slab = usize::from(n) % self.slabs.len();
        let nth = usize::from(n).checked_rem(self.held.len());
        let nth = match (action, nth) {
            (Action::Cancel, _) => return self.cancel(n),
            (Action::Take, _) | (_, None) => return self.take(slab),
            (_, Some(nth)) => nth,
        };
        // Up to one byte beyond the lease.
        let most = self.held[nth].1.part.len() + 1;
        let bytes = |len: u8| usize::from(len) % (most + 1);
        match action {
            Action::Take | Action::Cancel => unreachable!("they are for no lease"),
            Action::Split { at } => self.split(nth, bytes(at)),
            Action::Rejoin { with } => self.rejoin(nth, with),
            Action::Write { len, way } => self.write(nth, bytes(len), way),
            Action::Read { len, way } => self.read(nth, bytes(len), way),
            Action::Change => self.change(nth),
            Action::SetLen { len } => self.set_len(nth, bytes(len)),
            Action::Clear => self.clear(nth),
            Action::Drop => {
                drop(self.held.swap_remove(nth));
                "dropped"
            }
            Action::Forget { certain } if certain % 8 == 0 => {
                let (lease, account) = self.held.swap_remove(nth);
                mem::forget(lease);
                self.forgotten.push(account);
                "forgotten"
            }
            Action::Forget { .. } => "remembered",
            Action::Receive => self.receive(nth),
            Action::Send => self.send(nth),
        }
    }

    fn check(&mut self) {
        for (lease, account) in &mut self.held {
            let model = &self.models[account.slab];
            assert_eq!((lease.capacity(), lease.room()), (account.part.len(), account.room().len()), "{account:?}");
            assert_eq!(lease.data(), &model.bytes[account.data.clone()], "the data of {account:?}");
            let room = lease.room();
            assert_eq!(lease.prepare(room).unwrap(), &model.bytes[account.room()], "the room of {account:?}");
            let (lent, posted) = (lease.lend(), account.posted());
            assert_eq!((lent.ptr.addr().get() - model.begin, lent.len), (posted.start, posted.len()), "{account:?}");
            assert_eq!((lent.readable, lent.writable), (!account.data.is_empty(), true), "{account:?}");
            assert_eq!(lent.descriptor, Some(self.slabs[account.slab].descriptor()));
        }
    }

    fn is_out(&self, slab: usize, buffer: usize) -> bool {
        let held = self.held.iter().map(|(_, account)| account);
        let waiting = self.waiting.iter().map(|(_, account)| account);
        let mut accounts = held.chain(waiting).chain(&*self.forgotten);
        accounts.any(|account| account.slab == slab && self.models[slab].buffer(&account.part) == buffer)
    }

    fn take(&mut self, slab: usize) -> &'static str {
        let model = &self.models[slab];
        let Some(mut lease) = self.slabs[slab].lease() else {
            assert!(
                (0..model.attr.count).all(|buffer| self.is_out(slab, buffer)),
                "no lease, and there are free buffers"
            );
            return "none left";
        };
        let start = lease.lend().ptr.addr().get() - model.begin;
        let buffer = start / model.stride;
        assert!(
            start.is_multiple_of(model.stride) && buffer < model.attr.count,
            "a lease at {start}, of {:?}",
            model.attr
        );
        assert!(!self.is_out(slab, buffer), "a lease of buffer {buffer}, of which somebody has a part");
        let part = start..start + model.attr.size;
        self.held.push((lease, Account { slab, part, data: start..start }));
        "taken"
    }

    fn split(&mut self, nth: usize, at: usize) -> &'static str {
        let (lease, account) = self.held.swap_remove(nth);
        let inside = at > 0 && at < account.part.len();
        match lease.split(at) {
            Ok((first, second)) => {
                assert!(inside, "{account:?} is split at {at}");
                let middle = account.part.start + at;
                self.held.push((first, account.within(account.part.start..middle)));
                self.held.push((second, account.within(middle..account.part.end)));
                "split"
            }
            Err(lease) => {
                assert!(!inside, "{account:?} is not split at {at}");
                self.held.push((lease, account));
                "not split"
            }
        }
    }

    fn rejoin(&mut self, nth: usize, with: Option<u8>) -> &'static str {
        let (lease, account) = self.held.swap_remove(nth);
        let neighbour = self.held.iter().position(|(_, other)| account.touches(other));
        let other = with.map_or(neighbour, |with| usize::from(with).checked_rem(self.held.len()));
        let Some(other) = other else {
            self.held.push((lease, account));
            return "alone";
        };
        let (other_lease, other) = self.held.swap_remove(other);
        let joined = self.models[account.slab].joined(&account, &other);
        match lease.rejoin(other_lease) {
            Ok(lease) => {
                self.held.push((lease, joined.unwrap_or_else(|| panic!("{account:?} is joined with {other:?}"))));
                "joined"
            }
            Err(NotJoined { lease, other: other_lease }) => {
                assert!(joined.is_none(), "{account:?} is not joined with {other:?}");
                let model = &self.models[account.slab];
                let gap = account.touches(&other) && model.buffer(&account.part) == model.buffer(&other.part);
                self.held.extend([(lease, account), (other_lease, other)]);
                if gap { "a gap" } else { "no neighbours" }
            }
        }
    }

    fn write(&mut self, nth: usize, len: usize, way: Write) -> &'static str {
        let (lease, account) = &mut self.held[nth];
        let bytes: Vec<u8> = (self.fill..=u8::MAX).chain(0..=u8::MAX).take(len).collect();
        self.fill = self.fill.wrapping_add(1);
        let fits = len <= account.room().len();
        let committed = match way {
            Write::Commit | Write::Append | Write::Put => len,
            Write::Prepare { commit } => usize::from(commit) % (len + 1),
        };
        let written = match way {
            Write::Commit => lease.commit(len).is_ok(),
            Write::Append => lease.append(&bytes).is_ok(),
            Write::Prepare { .. } => lease
                .prepare(len)
                .map(|room| room.copy_from_slice(&bytes))
                .and_then(|()| lease.commit(committed))
                .is_ok(),
            Write::Put => step::put(lease, &bytes),
        };
        assert_eq!(written, fits, "{len} bytes into {account:?}, {way:?}");
        if !written {
            return "no room";
        }
        let end = account.data.end;
        if !matches!(way, Write::Commit) {
            self.models[account.slab].bytes[end..end + len].copy_from_slice(&bytes);
        }
        *account = account.with_data(account.data.start..end + committed);
        "written"
    }

    fn read(&mut self, nth: usize, len: usize, way: Read) -> &'static str {
        let (lease, account) = &mut self.held[nth];
        let start = account.data.start;
        let read = match way {
            Read::Consume => lease.consume(len).is_ok(),
            Read::Get => step::get(lease, len, |bytes| {
                assert_eq!(bytes, &self.models[account.slab].bytes[start..start + len], "{account:?}");
            }),
        };
        assert_eq!(read, len <= account.data.len(), "{len} bytes of {account:?}, {way:?}");
        if !read {
            return "no data";
        }
        *account = account.with_data(start + len..account.data.end);
        "read"
    }

    fn change(&mut self, nth: usize) -> &'static str {
        let (lease, account) = &mut self.held[nth];
        lease.data_mut().fill(self.fill);
        self.models[account.slab].bytes[account.data.clone()].fill(self.fill);
        self.fill = self.fill.wrapping_add(1);
        "changed"
    }

    fn clear(&mut self, nth: usize) -> &'static str {
        let (lease, account) = &mut self.held[nth];
        lease.clear();
        *account = account.with_data(0..0);
        "cleared"
    }

    fn set_len(&mut self, nth: usize, len: usize) -> &'static str {
        let (lease, account) = &mut self.held[nth];
        let start = account.data.start;
        let set = lease.set_len(len).is_ok();
        assert_eq!(set, len <= account.part.end - start, "{len} bytes of {account:?}");
        if !set {
            return "not so long";
        }
        *account = account.with_data(start..start + len);
        "set"
    }

    fn receive(&mut self, nth: usize) -> &'static str {
        if self.waiting.len() == WAITING {
            return "too many receives";
        }
        let (lease, account) = self.held.swap_remove(nth);
        let key = self.posts.endpoint.recv(Source::Any, lease).map_err(PostError::from).expect("it is taken");
        self.waiting.push_back((key, account));
        "to be received into"
    }

    fn finish(&self, key: OpKey) -> (Lease<'s, L>, Result<usize, ()>) {
        let done = self.posts.cq.wait(key, Forever).expect("the queue works").expect("the operation ends");
        let (lease, result) = done.into_parts();
        (lease, result.map(|transfer| transfer.len).map_err(drop))
    }

    fn send(&mut self, nth: usize) -> &'static str {
        let (lease, account) = self.held.swap_remove(nth);
        if account.data.is_empty() {
            let rejected = self.posts.endpoint.send(self.posts.me, lease).expect_err("it has no data");
            assert_eq!(rejected.error, PostError::Access);
            self.held.push((rejected.value, account));
            return "nothing to send";
        }
        let Some((receive, to)) = self.waiting.pop_front() else {
            self.held.push((lease, account));
            return "nobody receives";
        };
        let send = self.posts.endpoint.send(self.posts.me, lease).map_err(PostError::from).expect("it is taken");
        let (sent, result) = self.finish(send);
        assert_eq!(result, Ok(account.data.len()));
        let (received, result) = self.finish(receive);
        let (message, into) = (self.models[account.slab].bytes[account.data.clone()].to_vec(), to.posted());
        let len = message.len().min(into.len());
        assert_eq!(result, if len == message.len() { Ok(len) } else { Err(()) }, "{account:?} to {to:?}");
        self.models[to.slab].bytes[into.start..into.start + len].copy_from_slice(&message[..len]);
        self.held.extend([(sent, account), (received, to)]);
        if len == message.len() { "sent" } else { "cut short" }
    }

    fn cancel(&mut self, nth: u8) -> &'static str {
        let Some(nth) = usize::from(nth).checked_rem(self.waiting.len()) else { return "nothing to cancel" };
        let (key, account) = self.waiting.remove(nth).unwrap();
        self.posts.endpoint.cancel(key).unwrap();
        let (lease, result) = self.finish(key);
        assert_eq!(result, Err(()));
        self.held.push((lease, account));
        "cancelled"
    }
}

fn play_on<L: Sharing>(setting: &Setting, bytes: &mut Unstructured<'_>, told: &mut dyn FnMut(&'static str)) -> usize {
    let network =
        NetworkAttr { endpoints: 1, tx_depth: 4, rx_depth: 4, eager_size: 64, regions: 3, ..NetworkAttr::DEFAULT };
    let network = Network::new(network).unwrap();
    let domain = Domain::open(&network.info_requiring(RequiredModes::LOCAL_REGISTRATION)).unwrap();
    let av = Av::open(&domain, 1).unwrap();
    let (mut slabs, mut models) = (Vec::new(), Vec::new());
    for (attr, fill) in setting.attrs().zip(1..) {
        let memory = vec![fill; attr.memory().unwrap().size() + attr.align - 1].into_boxed_slice();
        models.push(Model::new(attr, &memory));
        let memory = Registered::new(&domain, memory).unwrap();
        slabs.push(Slab::<L>::over(memory, attr, Global).unwrap());
    }
    let (mut played, mut forgotten) = (0, Vec::new());
    scope(|s| {
        let cq = Cq::open(&s.domain(&domain), CqAttr { endpoints: 1, ..CqAttr::new(DEPTH) }).unwrap();
        let endpoint = cq.endpoint(&av).unwrap();
        let me = av.insert(&endpoint.address().unwrap()).unwrap();
        let mut world = World {
            slabs: &slabs,
            models: &mut models,
            posts: Posts { cq, endpoint, me },
            held: Vec::new(),
            waiting: VecDeque::new(),
            forgotten: &mut forgotten,
            fill: 100,
        };
        while played < MOST && !bytes.is_empty() {
            let Ok(step) = bytes.arbitrary::<Step>() else { break };
            told(world.step(step));
            world.check();
            played += 1;
        }
    });
    // All buffers except forgotten ones have returned, also posted ones, and no other byte has
    // changed.
    for (at, (slab, model)) in slabs.into_iter().zip(models).enumerate() {
        let mut lost: Vec<_> = forgotten.iter().filter(|account| account.slab == at).collect();
        lost.sort_unstable_by_key(|account| account.part.start);
        lost.dedup_by_key(|account| model.buffer(&account.part));
        let leases: Vec<_> = iter::from_fn(|| slab.lease()).collect();
        assert_eq!(leases.len() + lost.len(), model.attr.count, "{:?} without {lost:?}", model.attr);
        assert!(leases.iter().all(|lease| lease.capacity() == model.attr.size));
        drop(leases);
        assert!(slab.into_memory().ends_with(&model.bytes), "somebody has written beside a lease");
    }
    played
}

/// Plays a story, and reports its events. Returns the number of steps.
pub fn play(data: &[u8], mut told: impl FnMut(&'static str)) -> usize {
    let mut bytes = Unstructured::new(data);
    let Ok(setting) = bytes.arbitrary::<Setting>() else { return 0 };
    if setting.shared {
        play_on::<Shared>(&setting, &mut bytes, &mut told)
    } else {
        play_on::<Owner>(&setting, &mut bytes, &mut told)
    }
}
