//! The diagrams of the book. What is a fact in them comes from the kernels' catalogue.

mod cluster;
mod fragment;
mod machine;
mod order;
mod phases;
mod placement;
mod ring;
mod roles;
mod split;
mod swizzle;
mod tiles;
mod toolchain;

/// Every diagram: its file and what is in it.
pub fn all() -> Vec<(&'static str, String)> {
    vec![
        ("cluster.svg", cluster::draw()),
        ("fragment.svg", fragment::draw()),
        ("machine.svg", machine::draw()),
        ("phases.svg", phases::draw()),
        ("placement.svg", placement::draw()),
        ("ring.svg", ring::draw()),
        ("roles.svg", roles::draw()),
        ("split.svg", split::draw()),
        ("swizzle.svg", swizzle::one()),
        ("swizzles.svg", swizzle::all()),
        ("tile-order.svg", order::draw()),
        ("tiles.svg", tiles::draw()),
        ("toolchain.svg", toolchain::draw()),
    ]
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    #[test]
    fn the_diagrams_in_the_book_are_these() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/diagrams");
        let drawn = super::all();
        for (name, svg) in &drawn {
            let kept = std::fs::read_to_string(folder.join(name)).unwrap_or_default();
            assert!(kept == *svg, "docs/src/diagrams/{name} is not what is drawn; run `./x figures`");
        }
        let kept = std::fs::read_dir(&folder).unwrap().count();
        assert_eq!(kept, drawn.len(), "there is a diagram in docs/src/diagrams that nothing draws");
    }
}
