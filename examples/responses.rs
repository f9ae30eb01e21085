//! What `auto` is worth when bursts break a rhythm, and what it costs when none do.

#[path = "../tests/responses/world.rs"]
mod world;
fn main() {
    world::main();
}
