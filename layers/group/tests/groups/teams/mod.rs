mod agree;
mod awaited;
mod calls;
mod counted;
mod driven;
mod ends;
mod stories;
mod world;
