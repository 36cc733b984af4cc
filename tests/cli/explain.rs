//! `hopper-gemm explain`: the choice for a shape, and what is refused.

use hopper_gemm::Problem;
use hopper_gemm::model::EXCEPTIONS;
use hopper_gemm::select::{Request, select};
use hopper_gemm::tune::{Answer, Cache, ShapeClass, Target};
use kernels::catalogue::Element;

use crate::support::Folder;

#[test]
fn the_choice_is_what_the_library_launches() {
    let folder = Folder::new();
    for (text, element, sizes) in [
        ("4096x4096x14336", Element::F16, [4096, 4096, 14336]),
        ("64x8192x8192", Element::Bf16, [64, 8192, 8192]),
        ("1797x10x64", Element::F16, [1797, 10, 64]),
        ("1x4096x4096", Element::F16, [1, 4096, 4096]),
    ] {
        let command = format!("explain {text} --type {} --cache none.json", element.name());
        let selected = select(element, sizes, &Request::default()).unwrap();
        let shown = folder.run(&command).succeeded().stdout;
        for part in
            [selected.config.entry, "predicted", "bound by", "turns", "DRAM", "no answer for", "the model's best"]
        {
            assert!(shown.contains(part), "`{part}` is missing in\n{shown}");
        }
        let json = folder.run(&format!("{command} --top 3 --json")).succeeded().json();
        assert_eq!(json["choice"]["entry"], selected.config.entry);
        assert_eq!(json["choice"]["band"], selected.band.unwrap());
        let model = json["model"].as_array().unwrap();
        assert_eq!(model.len(), 3);
        assert!(model.windows(2).all(|pair| pair[0]["seconds"].as_f64() <= pair[1]["seconds"].as_f64()));
        if json["exception"].is_null() {
            assert_eq!(model[0], json["choice"]);
        }
    }
}

/// A product of few rows goes to gemv, which has no stages to speak of; one of more does not.
#[test]
fn few_rows_go_to_gemv() {
    let folder = Folder::new();
    for element in ["f16", "bf16"] {
        for shape in ["1x28672x8192", "3x6000x2000", "8x14336x4096", "1x2048x2048"] {
            let shown = folder.run(&format!("explain {shape} --type {element} --cache none.json")).succeeded().stdout;
            assert!(shown.contains(&format!("choice    gemv_{element}_8x")) && shown.contains("rounds"), "{shown}");
        }
        let shown = folder.run(&format!("explain 17x6000x2000 --type {element} --cache none.json")).succeeded().stdout;
        assert!(!shown.contains("choice    gemv"), "{shown}");
    }
}

#[test]
fn measurements_and_tuning_that_overrule_the_model_are_named() {
    let folder = Folder::new();
    let [m, n, k] = EXCEPTIONS[0].measured;
    let shown = folder.run(&format!("explain {m}x{n}x{k} --cache none.json")).succeeded().stdout;
    assert!(shown.contains(&format!("it measured best for {m}×{n}×{k}, against the model")), "{shown}");
    let json = folder.run(&format!("explain {m}x{n}x{k} --cache none.json --json")).succeeded().json();
    assert_eq!(json["exception"], serde_json::json!([m, n, k]));

    let problem = Problem::new(Element::F16, 1000, 1000, 1000).unwrap();
    let tuned = Answer {
        target: Target::new("NVIDIA H200", "580.95"),
        class: ShapeClass::of(&problem).to_string(),
        kernel: None,
        entry: "v3_f16_128x128x64_s3".to_owned(),
        band: 4,
        parts: 1,
        shape: [1000; 3],
        seconds: 9e-6,
        default_seconds: None,
        date: "2026-11-29T12:00:00Z".to_owned(),
    };
    let of_others = Answer { target: Target { kernels: "0".into(), ..tuned.target.clone() }, ..tuned.clone() };
    Cache::merge(&folder.path("tune.json"), &[tuned, of_others]).unwrap();
    let shown = folder.run("explain 1000 --cache tune.json").succeeded().stdout;
    assert!(shown.contains("v3_f16_128x128x64_s3, bands of 4, 9.00 µs measured"), "{shown}");
    assert!(shown.contains("NVIDIA H200"), "{shown}");
    let json = folder.run("explain 1000 --cache tune.json --json").succeeded().json();
    assert_eq!(json["tuned"]["answers"].as_array().unwrap().len(), 1);
}

#[test]
fn one_kernel_can_be_asked_about() {
    let folder = Folder::new();
    for kernel in ["split", "persistent", "wide"] {
        let json = folder.run(&format!("explain 777 --kernel {kernel} --cache none.json --json")).succeeded().json();
        assert!(json["model"].as_array().unwrap().iter().all(|row| row["entry"].as_str().unwrap().starts_with(kernel)));
        assert!(json["choice"]["entry"].as_str().unwrap().starts_with(kernel));
    }
}

#[test]
fn tiles_that_clusters_share_are_said() {
    let folder = Folder::new();
    // Not a shape that was measured.
    let arguments = "explain 128x128x100000 --cache none.json";
    let choice = folder.run(&format!("{arguments} --json")).succeeded().json()["choice"].clone();
    let parts = choice["parts"].as_u64().unwrap();
    assert!(parts > 1, "{choice}");
    let text = folder.run(arguments).succeeded().stdout;
    assert!(text.contains(&format!(", {parts} clusters a tile")), "{text}");
    assert!(text.contains(&format!("{}/{parts}", choice["entry"].as_str().unwrap())), "{text}");
    assert_eq!(folder.run("explain 8192 --cache none.json --json").succeeded().json()["choice"]["parts"], 1);
}

#[test]
fn what_cannot_be_explained_is_refused() {
    let folder = Folder::new();
    folder.run("explain 12x12").failed(2, &["12x12", "MxNxK"]);
    folder.run("explain").failed(2, &["MxNxK"]);
    folder.run("explain 64 --type f64").failed(2, &["f64", "f16, bf16"]);
    folder
        .run("explain 64 --cache none.json --kernel v3")
        .failed(2, &["v3", "split, parts, persistent, wide and pingpong"]);
    folder.run("explain 64x0x64 --cache none.json").failed(2, &["64×0×64"]);
}
