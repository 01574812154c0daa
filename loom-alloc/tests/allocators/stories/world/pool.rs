//! Pools, size classes, fallbacks and budgets, stacked by the story.

use std::alloc::Layout;
use std::ptr::NonNull;

use arbitrary::{Arbitrary, Unstructured};
use loom_alloc::allocator_api2::alloc::{Allocator, System};
use loom_alloc::{BlockPool, Budget, Fallback, Owner, Owns, PoolAttr, Shared, Sharing, SizeClasses, Spill, StaticPool};

use super::{Model, World};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Empty block.
    Nowhere,
    /// Block in the pool of this number, by size.
    Pool(usize),
    /// Block of the allocator behind the pools.
    Beyond,
}

/// Pool. Only its counts matter.
#[derive(Clone, Copy)]
struct Blocks {
    size: usize,
    align: usize,
    free: usize,
}

impl Blocks {
    fn fits(&self, layout: Layout) -> bool {
        layout.size() <= self.size && layout.align() <= self.align
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Limited {
    limit: usize,
    used: usize,
    blocks: usize,
    high_water: usize,
    refusals: usize,
}

impl Limited {
    fn of<A>(budget: &Budget<A>) -> Self {
        Limited {
            limit: budget.limit(),
            used: budget.used(),
            blocks: budget.blocks(),
            high_water: budget.high_water(),
            refusals: budget.refusals(),
        }
    }

    fn admits(&mut self, bytes: usize) -> bool {
        let admits = self.used.checked_add(bytes).is_some_and(|then| then <= self.limit);
        self.refusals += usize::from(!admits);
        admits
    }

    fn add(&mut self, bytes: usize) {
        self.used += bytes;
        self.high_water = self.high_water.max(self.used);
    }
}

/// Pools, with an optional allocator behind them and an optional budget over all.
struct Stack {
    pools: Vec<Blocks>,
    spill: bool,
    beyond: Option<Limited>,
    budget: Option<Limited>,
}

impl Stack {
    fn pool(&mut self, layout: Layout) -> Option<Place> {
        let mut fitting = (0..self.pools.len()).filter(|at| self.pools[*at].fits(layout));
        let at = if self.spill { fitting.find(|at| self.pools[*at].free > 0)? } else { fitting.next()? };
        self.pools[at].free = self.pools[at].free.checked_sub(1)?;
        Some(Place::Pool(at))
    }

    fn take(&mut self, layout: Layout) -> Option<Place> {
        if layout.size() == 0 {
            return Some(Place::Nowhere);
        }
        if let Some(place) = self.pool(layout) {
            return Some(place);
        }
        let beyond = self.beyond.as_mut()?;
        beyond.admits(layout.size()).then(|| {
            beyond.add(layout.size());
            beyond.blocks += 1;
            Place::Beyond
        })
    }

    fn give(&mut self, place: Place, layout: Layout) {
        match place {
            Place::Nowhere => {}
            Place::Pool(at) => self.pools[at].free += 1,
            Place::Beyond => {
                let beyond = self.beyond.as_mut().unwrap();
                beyond.used -= layout.size();
                beyond.blocks -= 1;
            }
        }
    }

    /// Changes the layout of a block, in place or by a move.
    fn change(&mut self, place: Place, old: Layout, new: Layout) -> Option<Place> {
        match place {
            _ if new.size() == 0 => {
                self.give(place, old);
                return Some(Place::Nowhere);
            }
            Place::Nowhere => return self.take(new),
            Place::Pool(at) if self.pools[at].fits(new) => return Some(place),
            Place::Pool(_) => {
                // Size classes search their own pools before the fallback searches all. The result
                // is the same.
            }
            Place::Beyond => {
                let beyond = self.beyond.as_mut().unwrap();
                if new.size() <= old.size() {
                    beyond.used -= old.size() - new.size();
                    return Some(place);
                }
                if beyond.admits(new.size() - old.size()) {
                    beyond.add(new.size() - old.size());
                    return Some(place);
                }
            }
        }
        let to = self.take(new)?;
        self.give(place, old);
        Some(to)
    }
}

impl Model for Stack {
    type Place = Place;

    fn allocate(&mut self, layout: Layout) -> Option<Place> {
        if self.budget.as_mut().is_some_and(|budget| !budget.admits(layout.size())) {
            return None;
        }
        let place = self.take(layout)?;
        if let Some(budget) = &mut self.budget {
            budget.add(layout.size());
            budget.blocks += usize::from(layout.size() > 0);
        }
        Some(place)
    }

    fn deallocate(&mut self, place: Place, layout: Layout) {
        self.give(place, layout);
        if let Some(budget) = &mut self.budget {
            budget.used -= layout.size();
            budget.blocks -= usize::from(layout.size() > 0);
        }
    }

    fn grow(&mut self, place: Place, old: Layout, new: Layout) -> Option<Place> {
        let more = new.size() - old.size();
        if self.budget.as_mut().is_some_and(|budget| !budget.admits(more)) {
            return None;
        }
        let to = self.change(place, old, new)?;
        if let Some(budget) = &mut self.budget {
            budget.add(more);
            budget.blocks += usize::from(old.size() == 0 && new.size() > 0);
        }
        Some(to)
    }

    fn shrink(&mut self, place: Place, old: Layout, new: Layout) -> Option<Place> {
        let to = self.change(place, old, new)?;
        if let Some(budget) = &mut self.budget {
            budget.used -= old.size() - new.size();
            budget.blocks -= usize::from(old.size() > 0 && new.size() == 0);
        }
        Some(to)
    }
}

#[derive(Arbitrary, Clone, Copy, Debug)]
struct Plan {
    shape: Shape,
    /// Blocks of three pools: size in eights, alignment, and number.
    pools: [(u8, u8, u8); 3],
    shared: bool,
    spill: bool,
    beyond: Option<u16>,
    budget: Option<u16>,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Shape {
    Pool,
    Classes,
    Static,
}

impl Plan {
    /// Attributes of a pool. Pools have different sizes, so they have an order.
    fn attr(&self, at: usize) -> PoolAttr {
        let (eights, align, count) = self.pools[at];
        let size = 8 * (1 + usize::from(eights % 12)) + 200 * at;
        PoolAttr { block: Layout::from_size_align(size, 1 << (align % 7)).unwrap(), count: usize::from(count % 6) }
    }

    fn blocks(&self, at: usize) -> Blocks {
        let PoolAttr { block, count } = self.attr(at);
        Blocks { size: block.pad_to_align().size(), align: block.align(), free: count }
    }

    fn open<S: Sharing>(&self, at: usize) -> BlockPool<System, S> {
        BlockPool::new_in(self.attr(at), System).unwrap()
    }

    /// Returns the model of a plan with these pools.
    fn model(&self, pools: Vec<Blocks>, spill: bool) -> Stack {
        let limited = |limit| Limited { limit, ..Limited::default() };
        Stack {
            pools,
            spill,
            beyond: self.beyond.map(|limit| limited(usize::from(limit % 2048))),
            budget: self.budget.map(|limit| limited(usize::from(limit % 4096))),
        }
    }
}

/// Plays on pools, stacked as planned. `at` returns the pool of a block.
fn stacked<P: Owns>(
    plan: &Plan,
    pools: P,
    at: impl Fn(&P, NonNull<u8>, Layout) -> Option<usize>,
    mut model: Stack,
    bytes: &mut Unstructured<'_>,
) -> usize {
    let before: Vec<usize> = model.pools.iter().map(|pool| pool.free).collect();
    let played = if let Some(limited) = model.beyond {
        let beyond = Budget::new(System, limited.limit);
        let pair = Fallback::new(pools, &beyond);
        let played = budgeted(
            plan,
            &pair,
            |block, layout| at(pair.first(), block, layout).map_or(Place::Beyond, Place::Pool),
            &mut model,
            bytes,
            |model| assert_eq!(Some(Limited::of(&beyond)), model.beyond),
        );
        assert_eq!((beyond.used(), beyond.blocks()), (0, 0));
        played
    } else {
        let place = |block, layout| at(&pools, block, layout).map_or(Place::Beyond, Place::Pool);
        budgeted(plan, pools.allocator(), place, &mut model, bytes, |_| ())
    };
    let after: Vec<usize> = model.pools.iter().map(|pool| pool.free).collect();
    assert_eq!(before, after, "the model has lost a block");
    played
}

fn budgeted<A: Allocator>(
    plan: &Plan,
    alloc: A,
    place: impl Fn(NonNull<u8>, Layout) -> Place,
    model: &mut Stack,
    bytes: &mut Unstructured<'_>,
    check: impl Fn(&Stack),
) -> usize {
    /// Limit of steps. Longer stories add no states on pools of a few blocks.
    const MOST: usize = 64;
    let Some(limited) = model.budget.filter(|_| plan.budget.is_some()) else {
        let mut world = World::new(alloc, place, model);
        let played = world.play(bytes, MOST, check);
        world.end();
        return played;
    };
    let budget = Budget::new(alloc, limited.limit);
    let mut world = World::new(&budget, place, model);
    let played = world.play(bytes, MOST, |model| {
        assert_eq!(Some(Limited::of(&budget)), model.budget);
        check(model);
    });
    world.end();
    assert_eq!((budget.used(), budget.blocks()), (0, 0));
    played
}

fn shared<S: Sharing>(plan: &Plan, bytes: &mut Unstructured<'_>) -> usize {
    if let Shape::Pool = plan.shape {
        let pool = plan.open::<S>(0);
        let at = |pool: &BlockPool<_, _>, block, layout| pool.owns(block, layout).then_some(0);
        return stacked(plan, pool, at, plan.model(vec![plan.blocks(0)], false), bytes);
    }
    let spill = if plan.spill { Spill::ToLarger } else { Spill::Never };
    let classes = SizeClasses::new([2, 0, 1].map(|at| plan.open::<S>(at)), spill);
    let at = |classes: &SizeClasses<_, _, 3>, block, layout| {
        classes.pools().iter().position(|pool| pool.owns(block, layout))
    };
    let mut pools = [0, 1, 2].map(|at| plan.blocks(at)).to_vec();
    pools.sort_by_key(|pool| (pool.size, pool.align));
    stacked(plan, classes, at, plan.model(pools, plan.spill), bytes)
}

/// Plays blocks of a pool, of several, or of one as in a `static`. They are for one or several
/// threads, alone, before another allocator, or under a budget.
pub fn pool(data: &[u8]) -> usize {
    let mut bytes = Unstructured::new(data);
    let Ok(plan) = bytes.arbitrary::<Plan>() else { return 0 };
    if let Shape::Static = plan.shape {
        let pool = StaticPool::<72, 3>::new();
        let at = |pool: &StaticPool<72, 3>, block, layout| pool.owns(block, layout).then_some(0);
        let model = plan.model(vec![Blocks { size: 72, align: 8, free: 3 }], false);
        return stacked(&plan, pool, at, model, &mut bytes);
    }
    if plan.shared { shared::<Shared>(&plan, &mut bytes) } else { shared::<Owner>(&plan, &mut bytes) }
}
