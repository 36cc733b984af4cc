//! dev
use sim::{gemm::*, *};
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let config = kernels::catalogue::by_entry(&args[1]).unwrap();
    let text = std::fs::read_to_string(format!("target/ptx/{}.ptx", args[1])).unwrap();
    let s: Vec<usize> = args[2].split('x').map(|x| x.parse().unwrap()).collect();
    let t = std::time::Instant::now();
    let program = Program::load(&text, &args[1]).unwrap();
    println!("load {:?}", t.elapsed());
    let (m, n, k) = (s[0], s[1], s[2]);
    let ld = k.next_multiple_of(8);
    let mut r = schedule::Random::new(5);
    let mut fill = |len: usize| -> Vec<u16> { (0..len).map(|_| { let x = r.bits(); ((x & 0x8fff) as u16) | 0x3000 }).collect() };
    let (a, b) = (fill(m * ld), fill(n * ld));
    let product = Product { m, n, k, a: &a, lda: ld, b: &b, ldb: ld, ldc: n.next_multiple_of(if args[1].contains("pers") { 8 } else { 1 }), multiprocessors: 4 };
    let reference = product.reference(config);
    println!("reference {:?}", t.elapsed());
    for schedule in &args[3..] {
        let schedule: Schedule = schedule.parse().unwrap();
        let t = std::time::Instant::now();
        match checked_gemm(&program, config, &product, &reference, &schedule, Control::default()) {
            Ok(o) => println!("{schedule}: ok {} instructions, {:?}", o.instructions, t.elapsed()),
            Err(e) => { println!("{e}"); std::process::exit(1) }
        }
    }
}
