use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use loom_async::tokio::{Mode, drive, run};
use loom_core::{CqAttr, Source, WaitObj};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::LocalSet;

use crate::tokio::{LIMIT, on_one_thread, pair};

const MODES: [Mode; 3] = [Mode::Busy, Mode::Sleep, Mode::Hybrid { spin: Duration::from_millis(1) }];

#[test]
fn operation_that_a_timeout_has_cut_short_is_waited_for_again() {
    for mode in MODES {
        on_one_thread(async {
            let [(a, to_b), (b, _)] = pair(CqAttr { wait: WaitObj::FD, ..CqAttr::new(16) });
            run((&a.driver, &b.driver), mode, async {
                let mut received = Box::pin(b.driver.run(vec![0; 2], |buf| b.endpoint.recv(Source::Any, buf)));
                let early = tokio::time::timeout(Duration::from_millis(5), &mut received).await;
                assert!(early.is_err(), "nothing was sent");
                a.endpoint.inject(to_b, b"ab").unwrap();
                let done = tokio::time::timeout(LIMIT, received).await.unwrap().unwrap();
                assert_eq!(done.into_buf(), b"ab");
            })
            .await
            .unwrap();
        });
    }
}

#[test]
fn choice_between_operations_takes_the_first_and_cancels_the_other() {
    on_one_thread(async {
        let [(a, to_b), (b, _)] = pair(CqAttr { wait: WaitObj::FD, ..CqAttr::new(16) });
        run((&a.driver, &b.driver), Mode::Sleep, async {
            let first = b.endpoint.tagged_recv(Source::Any, loom_core::Tag(1), vec![0; 1]).unwrap();
            let second = b.endpoint.tagged_recv(Source::Any, loom_core::Tag(2), vec![0; 1]).unwrap();
            let (mut first, second) = (b.driver.finish(first), b.driver.finish(second));
            a.endpoint.tagged_inject(to_b, loom_core::Tag(2), &[2]).unwrap();
            tokio::select! {
                _ = &mut first => panic!("nobody has sent it"),
                done = second => assert_eq!(done.unwrap().into_buf(), [2]),
            }
            let done = first.cancel(&b.endpoint).await.unwrap();
            assert_eq!(done.result().unwrap_err().errno, loom_core::Errno::ECANCELED);
        })
        .await
        .unwrap();
    });
}

#[test]
fn tasks_of_a_local_set_share_a_fabric_that_another_task_drives() {
    const TASKS: usize = 50;
    for mode in MODES {
        on_one_thread(LocalSet::new().run_until(async {
            let [(a, to_b), (b, _)] = pair(CqAttr { wait: WaitObj::FD, ..CqAttr::new(256) });
            let driving = tokio::task::spawn_local(drive((a.driver.clone(), b.driver.clone()), mode).unwrap());
            let (a, b, sum) = (Rc::new(a), Rc::new(b), Rc::new(Cell::new(0)));
            let tasks: Vec<_> = (0..TASKS)
                .flat_map(|number| {
                    let byte = u8::try_from(number).unwrap();
                    let (a, b, sum) = (a.clone(), b.clone(), sum.clone());
                    let sends = tokio::task::spawn_local(async move {
                        tokio::task::yield_now().await;
                        let sent = a.driver.run(vec![byte; 100], |buf| a.endpoint.send(to_b, buf)).await.unwrap();
                        sent.result().unwrap();
                    });
                    let receives = tokio::task::spawn_local(async move {
                        let done = b.driver.run(vec![0; 100], |buf| b.endpoint.recv(Source::Any, buf)).await.unwrap();
                        sum.set(sum.get() + usize::from(done.into_buf()[99]));
                    });
                    [sends, receives]
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
            assert_eq!(sum.get(), (0..TASKS).sum());
            driving.abort();
        }));
    }
}

#[test]
fn sockets_are_served_while_large_messages_move() {
    const MESSAGES: usize = 64;
    const LEN: usize = 1 << 20;
    on_one_thread(async {
        let [(a, to_b), (b, _)] = pair(CqAttr { wait: WaitObj::FD, ..CqAttr::new(16) });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        run((&a.driver, &b.driver), Mode::Sleep, async {
            let over = Cell::new(false);
            let sends = async {
                let mut buf = vec![0; LEN];
                for number in 0..MESSAGES {
                    buf.fill(u8::try_from(number).unwrap());
                    let sent = a.driver.run(buf, |buf| a.endpoint.send(to_b, buf)).await.unwrap();
                    sent.result().unwrap();
                    buf = sent.into_buf();
                }
            };
            let receives = async {
                let mut buf = vec![0xff; LEN];
                for number in 0..MESSAGES {
                    let received = b.driver.run(buf, |buf| b.endpoint.recv(Source::Any, buf)).await.unwrap();
                    received.result().unwrap();
                    buf = received.into_buf();
                    assert!(buf.iter().all(|byte| usize::from(*byte) == number));
                }
                over.set(true);
            };
            let serves = async {
                let (mut socket, _) = listener.accept().await.unwrap();
                let mut byte = [0];
                while socket.read(&mut byte).await.unwrap() == 1 {
                    socket.write_all(&byte).await.unwrap();
                }
            };
            let requests = async {
                let mut socket = TcpStream::connect(at).await.unwrap();
                let (mut answers, mut byte) = (0_u32, [7]);
                while !over.get() {
                    socket.write_all(&byte).await.unwrap();
                    socket.read_exact(&mut byte).await.unwrap();
                    answers += 1;
                }
                answers
            };
            let ((), (), (), answers) = tokio::join!(sends, receives, serves, requests);
            assert!(answers > 5, "{answers} while {MESSAGES} messages moved");
        })
        .await
        .unwrap();
    });
}
