//! What goes wrong is said in one line, with the exit code that `--help` documents.

use std::process::Stdio;

use crate::support::{Folder, program, run};

#[test]
fn files_that_cannot_be_read() {
    let folder = Folder::new();
    folder.matrix("b.npy", 3, 4, |_, _| 1.0);
    folder.npy("integers.npy", "<i8", false, "(2, 4)", &[0; 64]);
    folder.npy("words.npy", "<u2", false, "(2, 4)", &[0; 16]);
    folder.npy("vector.npy", "<f2", false, "(4,)", &[0; 8]);
    folder.npy("cube.npy", "<f2", false, "(2, 2, 4)", &[0; 32]);
    folder.npy("short.npy", "<f2", false, "(2, 4)", &[0; 15]);
    folder.npy("huge.npy", "<f8", true, "(9223372036854775807, 9223372036854775807)", &[0; 8]);
    std::fs::write(folder.path("text.npy"), "1,2\n3,4\n").unwrap();
    std::fs::write(folder.path("empty.npy"), "").unwrap();
    let whole = std::fs::read(folder.path("b.npy")).unwrap();
    std::fs::write(folder.path("header.npy"), &whole[..40]).unwrap();
    for (a, said) in [
        ("absent.npy", "No such file"),
        (".", "directory"),
        ("integers.npy", "'<i8'"),
        ("words.npy", "--bf16-as-u16"),
        ("vector.npy", "reshape"),
        ("cube.npy", "2×2×4"),
        ("short.npy", "16 bytes, and 15 follow"),
        ("huge.npy", "truncated"),
        ("text.npy", "is not a .npy file"),
        ("empty.npy", "is not a .npy file"),
        ("header.npy", "within its header"),
    ] {
        folder.run(&format!("matmul --a {a} --b b.npy --device cpu")).failed(3, &[a, said]);
        folder.run(&format!("matmul --a b.npy --b {a} --device cpu")).failed(3, &[a, said]);
    }
}

#[test]
fn shapes_that_do_not_fit() {
    let folder = Folder::new();
    folder.matrix("a.npy", 5, 7, |_, _| 1.0);
    folder.matrix("kn.npy", 7, 4, |_, _| 1.0);
    folder.matrix("other.npy", 6, 4, |_, _| 1.0);
    folder.run("matmul --a a.npy --b kn.npy").failed(3, &["A is 5×7 and B is 7×4", "hint: ", "--b-layout kn"]);
    let run = folder.run("matmul --a a.npy --b other.npy").failed(3, &["A is 5×7 and B is 6×4"]);
    assert!(!run.stderr.contains("hint"), "{}", run.stderr);
    folder.matrix("nk.npy", 4, 7, |_, _| 1.0);
    folder.run("matmul --a a.npy --b nk.npy --b-layout kn").failed(3, &["leave out --b-layout kn"]);
}

#[test]
fn files_that_cannot_be_written() {
    let folder = Folder::new();
    folder.run("matmul --random 8 --device cpu --out absent/c.npy").failed(3, &["cannot create absent/c.npy"]);
    folder.run("matmul --random 8 --device cpu --out .").failed(3, &["directory"]);
    folder.run("matmul --random 8 --device cpu --out /dev/full").failed(3, &["cannot write /dev/full"]);
}

#[test]
fn options_that_do_not_exist_or_do_not_go_together() {
    for (arguments, said) in [
        ("", "--random MxNxK"),
        ("--a a.npy", "--b"),
        ("--random 8 --a a.npy --b b.npy", "cannot be used with"),
        ("--random 8x8", "three numbers"),
        ("--random 2147483649x1x1", "at most 2147483648"),
        ("--random 8 --seed x", "--seed"),
        ("--random 8 --type f64", "f16, bf16"),
        ("--random 8 --kernel v99", "v3"),
        ("--random 8 --tile 128", "128x128x64"),
        ("--random 8 --tile 128x120x64", "--tile 128x128x64"),
        ("--random 8 --kernel v3 --stages 99", "--stages 7"),
        ("--random 8 --kernel v3 --tile 256x256x64", "512 accumulator registers"),
        ("--random 8 --kernel ceiling", "computes no product"),
        ("--random 8 --kernel v3 --cluster 2x1", "cluster 2x1"),
        ("--random 8 --cluster 2", "two numbers"),
        ("--random 8 --kernel v3 --parts 2", "with these kernels only: split, parts"),
        ("--random 8 --parts 0", "0 clusters"),
        ("--random 8 --device gpu", "auto, cpu, sim, or cuda:N"),
    ] {
        run(&format!("matmul {arguments}")).failed(2, &[said]);
    }
}

#[test]
fn a_product_that_is_too_large_for_the_memory() {
    run("matmul --random 2000000x2000000x8 --device cpu").failed(5, &["2000000×2000000×8", "TiB of host memory"]);
}

#[test]
#[cfg(not(feature = "cuda"))]
fn a_gpu_without_the_feature() {
    run("matmul --random 8 --device cuda:0").failed(4, &["feature `cuda`", "--features cuda"]);
}

#[test]
fn nan_fails_the_check() {
    let folder = Folder::new();
    folder.matrix("a.npy", 2, 4, |i, k| if (i, k) == (1, 2) { f32::NAN } else { 1.0 });
    folder.matrix("b.npy", 3, 4, |_, _| 1.0);
    let run = folder.run("matmul --a a.npy --b b.npy --check --device cpu");
    let run = run.failed(1, &["3 elements of A·Bᵀ are NaN"]);
    assert!(run.stdout.contains("FAILED"), "{}", run.stdout);
    let json = folder.run("matmul --a a.npy --b b.npy --check --json --device cpu").failed(1, &[]).json();
    assert_eq!((&json["check"]["passed"], &json["check"]["nan"]), (&false.into(), &3.into()));
}

#[test]
fn errors_are_json_too() {
    let json = run("matmul --a absent.npy --b absent.npy --json").failed(3, &["absent.npy"]).json();
    assert_eq!(json["exit_code"], 3);
    assert!(json["error"].as_str().unwrap().contains("absent.npy"));
}

#[test]
fn nobody_listening_is_no_failure() {
    let mut child =
        program().args(["kernels", "--json"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
    assert!(output.status.success());
}

#[test]
fn a_full_disk_is_said() {
    let full = std::fs::File::create("/dev/full").unwrap();
    let output = program().arg("kernels").stdout(full).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8(output.stderr).unwrap().contains("standard output"));
}

#[test]
fn help_documents_the_exit_codes() {
    for arguments in ["--help", "matmul --help"] {
        let help = run(arguments).succeeded().stdout;
        for code in 0..=6 {
            assert!(help.contains(&format!("\n  {code}  ")), "{help}");
        }
    }
    assert!(run("matmul --help").stdout.contains("C = A·Bᵀ"));
}
