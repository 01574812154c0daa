//! Programs that must not compile, beside those that do.
//!
//! A task may borrow values that outlive the executor:
//!
//! ```
//! use core::cell::Cell;
//! let told = Cell::new(0);
//! let executor = loom_async::LocalExecutor::new(1)?;
//! executor.spawn(async { told.set(1) })?;
//! # Ok::<_, loom_core::Error>(())
//! ```
//!
//! but not values dropped before it, because that drops the task:
//!
//! ```compile_fail,E0597
//! use core::cell::Cell;
//! let executor = loom_async::LocalExecutor::new(1)?;
//! let told = Cell::new(0);
//! executor.spawn(async { told.set(1) })?;
//! # Ok::<_, loom_core::Error>(())
//! ```
//!
//! A spawner adds tasks of the executor's own type:
//!
//! ```
//! use core::{future::Future, pin::Pin};
//! type Task<'t> = Pin<Box<dyn Future<Output = ()> + 't>>;
//! fn spawns<'t>(spawner: loom_async::Spawner<Task<'t>>, task: Task<'t>) {
//!     let _ = spawner.spawn(task);
//! }
//! ```
//!
//! but not tasks that live shorter:
//!
//! ```compile_fail
//! use core::{future::Future, pin::Pin};
//! type Task<'t> = Pin<Box<dyn Future<Output = ()> + 't>>;
//! fn spawns<'t>(spawner: loom_async::Spawner<Task<'static>>, task: Task<'t>) {
//!     let spawner: loom_async::Spawner<Task<'t>> = spawner;
//!     let _ = spawner.spawn(task);
//! }
//! ```
//!
//! Executors stay on their thread, with or without tasks:
//!
//! ```compile_fail,E0277
//! let executor = loom_async::LocalExecutor::<core::future::Ready<()>>::new(1)?;
//! std::thread::spawn(move || executor.len());
//! # Ok::<_, loom_core::Error>(())
//! ```
//!
//! Spawners stay there, too:
//!
//! ```compile_fail,E0277
//! let executor = loom_async::LocalExecutor::<core::future::Ready<()>>::new(1)?;
//! let spawner = executor.spawner();
//! std::thread::spawn(move || spawner.spawn(core::future::ready(())).is_ok());
//! # Ok::<_, loom_core::Error>(())
//! ```
//!
//! The allocator is `'static`, like wakers:
//!
//! ```
//! # use loom_core::allocator_api2::alloc::Global;
//! let executor = loom_async::LocalExecutor::<core::future::Ready<()>>::new_in(1, Global)?;
//! # Ok::<_, loom_core::Error>(())
//! ```
//!
//! ```compile_fail,E0597
//! # use loom_core::allocator_api2::alloc::Global;
//! let alloc = Global;
//! let executor = loom_async::LocalExecutor::<core::future::Ready<()>>::new_in(1, &alloc)?;
//! # Ok::<_, loom_core::Error>(())
//! ```
