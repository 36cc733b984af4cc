//! What a PTX module says, with every name resolved.
//!
//! Registers are numbers, labels are indices of instructions, braces are gone. Predicate registers and
//! all others are numbered apart, so that an interpreter can keep predicates as masks.

/// A PTX module.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Module {
    /// `.version major.minor`.
    pub version: (u32, u32),
    /// `.target`, as written: `sm_90a`.
    pub target: String,
    /// Variables at module scope, and those declared inside entries.
    pub variables: Vec<Variable>,
    /// `.file` directives: number and path.
    pub files: Vec<(u32, String)>,
    /// Entries, in the order of the text.
    pub entries: Vec<Entry>,
}

impl Module {
    /// The entry named `name`.
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name == name)
    }

    /// The path of source file `number`, as `.file` gives it.
    pub fn file(&self, number: u32) -> Option<&str> {
        self.files.iter().find(|file| file.0 == number).map(|file| file.1.as_str())
    }
}

/// A variable in a state space.
#[derive(Clone, PartialEq, Debug)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Where it lives.
    pub space: Space,
    /// Alignment in bytes.
    pub align: u64,
    /// Size in bytes; `None` for an unsized `.extern .shared` array, whose size the launch gives.
    pub bytes: Option<u64>,
    /// First bytes of its initial value; the rest is zero.
    pub initial: Vec<u8>,
    /// Line of its declaration.
    pub line: u32,
}

/// A kernel.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Its parameters.
    pub params: Vec<Param>,
    /// Directives that bound a launch.
    pub bounds: Bounds,
    /// General registers: those that are not predicates.
    pub registers: Vec<Register>,
    /// Names of the predicate registers.
    pub predicates: Vec<String>,
    /// The instructions, in order.
    pub body: Vec<Instruction>,
    /// Line of `.entry`.
    pub line: u32,
}

/// A parameter of an entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Param {
    /// Its name.
    pub name: String,
    /// Offset in the parameter space, in bytes.
    pub offset: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// Alignment in bytes.
    pub align: u64,
}

/// Performance-tuning and cluster directives of an entry. `None` where the directive is absent.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Bounds {
    /// `.maxntid`: the most threads of a block.
    pub max_threads: Option<[u32; 3]>,
    /// `.reqntid`: exactly these threads.
    pub required_threads: Option<[u32; 3]>,
    /// `.minnctapersm`.
    pub min_blocks: Option<u32>,
    /// `.maxnreg`.
    pub max_registers: Option<u32>,
    /// `.reqnctapercluster`.
    pub required_cluster: Option<[u32; 3]>,
    /// `.explicitcluster`.
    pub explicit_cluster: bool,
    /// `.maxclusterrank`.
    pub max_cluster_rank: Option<u32>,
}

/// A general register.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Register {
    /// Its name, `%r12`.
    pub name: String,
    /// Its type.
    pub ty: Type,
}

/// Index of a general register in [`Entry::registers`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Reg(pub u32);

/// Index of a predicate register in [`Entry::predicates`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Pred(pub u32);

/// Index of an instruction in [`Entry::body`]; its length stands for the end of the body.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Label(pub u32);

/// A place in the source that `.loc` names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SourceLine {
    /// Number of the `.file`.
    pub file: u32,
    /// Line.
    pub line: u32,
    /// Column.
    pub column: u32,
}

/// One instruction.
#[derive(Clone, PartialEq, Debug)]
pub struct Instruction {
    /// What it does.
    pub op: Op,
    /// `@p` or `@!p`.
    pub guard: Option<PredUse>,
    /// Line of the PTX text.
    pub line: u32,
    /// Line of the source, from the last `.loc`.
    pub source: Option<SourceLine>,
}

/// Scalar types.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[allow(missing_docs)]
pub enum Type {
    B8,
    B16,
    B32,
    B64,
    B128,
    U8,
    U16,
    U32,
    U64,
    S8,
    S16,
    S32,
    S64,
    F16,
    F16x2,
    Bf16,
    Bf16x2,
    Tf32,
    F32,
    F64,
    E4m3,
    E5m2,
    Pred,
}

impl Type {
    /// Size in bytes; 0 for a predicate.
    #[inline]
    pub const fn bytes(self) -> u64 {
        match self {
            Type::Pred => 0,
            Type::B8 | Type::U8 | Type::S8 | Type::E4m3 | Type::E5m2 => 1,
            Type::B16 | Type::U16 | Type::S16 | Type::F16 | Type::Bf16 => 2,
            Type::B32 | Type::U32 | Type::S32 | Type::F16x2 | Type::Bf16x2 | Type::Tf32 | Type::F32 => 4,
            Type::B64 | Type::U64 | Type::S64 | Type::F64 => 8,
            Type::B128 => 16,
        }
    }

    /// Whether it is a signed integer type.
    #[inline]
    pub const fn signed(self) -> bool {
        matches!(self, Type::S8 | Type::S16 | Type::S32 | Type::S64)
    }

    /// Whether it is a floating-point type, packed ones included.
    #[inline]
    pub const fn float(self) -> bool {
        matches!(
            self,
            Type::F16
                | Type::F16x2
                | Type::Bf16
                | Type::Bf16x2
                | Type::Tf32
                | Type::F32
                | Type::F64
                | Type::E4m3
                | Type::E5m2
        )
    }
}

/// State spaces.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Space {
    /// No space given: a generic address.
    Generic,
    /// `.global`
    Global,
    /// `.shared` and `.shared::cta`
    Shared,
    /// `.shared::cluster`
    Cluster,
    /// `.const`
    Const,
    /// `.param`
    Param,
    /// `.local`
    Local,
}

/// A source operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operand {
    /// A general register.
    Reg(Reg),
    /// An integer, in two's complement.
    Int(u64),
    /// Bits of an f32 literal.
    F32(u32),
    /// Bits of an f64 literal.
    F64(u64),
    /// A special register.
    Special(Special),
    /// The address of a variable or parameter, plus bytes.
    Address(Symbol, i64),
}

/// What a name outside the registers stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Symbol {
    /// Index in [`Module::variables`].
    Variable(u32),
    /// Index in [`Entry::params`].
    Param(u32),
}

/// A predicate source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PredUse {
    /// The predicate register.
    pub pred: Pred,
    /// Whether its complement is meant.
    pub negated: bool,
}

/// A predicate source that may be a constant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PredOperand {
    /// A register or its complement.
    Use(PredUse),
    /// A constant.
    Const(bool),
}

/// An address: base plus bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Address {
    /// Register, constant or symbol.
    pub base: Operand,
    /// Bytes added to it.
    pub offset: i64,
}

/// A special register, read as an unsigned number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[allow(missing_docs)]
pub enum Special {
    /// `%tid`, axis 0 to 2.
    Tid(u8),
    /// `%ntid`
    Ntid(u8),
    /// `%ctaid`
    Ctaid(u8),
    /// `%nctaid`
    Nctaid(u8),
    /// `%clusterid`
    ClusterId(u8),
    /// `%nclusterid`
    NclusterId(u8),
    /// `%cluster_ctaid`
    ClusterCtaid(u8),
    /// `%cluster_nctaid`
    ClusterNctaid(u8),
    ClusterCtarank,
    ClusterNctarank,
    IsExplicitCluster,
    LaneId,
    WarpId,
    NwarpId,
    SmId,
    NsmId,
    GridId,
    LanemaskEq,
    LanemaskLt,
    LanemaskLe,
    LanemaskGt,
    LanemaskGe,
    Clock,
    Clock64,
    GlobalTimer,
    GlobalTimerLo,
    DynamicSharedBytes,
    TotalSharedBytes,
}

/// Rounding of a floating-point result, or of a conversion to an integer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rounding {
    /// To nearest, ties to even: `.rn`, `.rni`.
    Nearest,
    /// To nearest, ties away from zero: `.rna`.
    NearestAway,
    /// Toward zero: `.rz`, `.rzi`.
    Zero,
    /// Toward minus infinity: `.rm`, `.rmi`.
    Down,
    /// Toward plus infinity: `.rp`, `.rpi`.
    Up,
}

/// Modifiers of floating-point arithmetic.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FloatMode {
    /// Rounding, if given.
    pub rounding: Option<Rounding>,
    /// `.ftz`: subnormal inputs and results become zero.
    pub ftz: bool,
    /// `.sat`: the result is clamped to [0, 1] (integers: to the type's range).
    pub sat: bool,
    /// `.relu`: a negative result becomes zero.
    pub relu: bool,
    /// `.NaN`: min and max give NaN when an input is.
    pub nan: bool,
}

/// Operations with one source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum UnaryOp {
    Neg,
    Abs,
    Not,
    Cnot,
    Clz,
    Popc,
    Brev,
    /// `bfind`
    FindTop,
    /// `bfind.shiftamt`
    FindTopShift,
    /// `rcp`
    Reciprocal,
    Sqrt,
    /// `rsqrt`
    ReciprocalSqrt,
    Ex2,
    Lg2,
    Sin,
    Cos,
    Tanh,
}

/// Operations with two sources.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum BinaryOp {
    Add,
    Sub,
    /// `mul.lo`, and `mul` of floats.
    Mul,
    MulHigh,
    MulWide,
    Div,
    Rem,
    Min,
    Max,
    And,
    Or,
    Xor,
    Shl,
    Shr,
    CopySign,
}

/// Operations with three sources.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum TernaryOp {
    /// `mad.lo`
    Mad,
    MadHigh,
    MadWide,
    Fma,
    /// `bfe`: field of `a` at `b` of `c` bits.
    FieldExtract,
    /// `sad`
    AbsoluteDifference,
    /// `prmt`
    Permute,
    /// `shf.l.wrap`
    FunnelLeftWrap,
    /// `shf.l.clamp`
    FunnelLeftClamp,
    /// `shf.r.wrap`
    FunnelRightWrap,
    /// `shf.r.clamp`
    FunnelRightClamp,
}

/// Comparisons of `setp` and `set`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Compare {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    /// The unordered forms: true when an input is NaN.
    Equ,
    Neu,
    Ltu,
    Leu,
    Gtu,
    Geu,
    /// Neither input is NaN.
    Num,
    /// An input is NaN.
    Nan,
}

/// Boolean operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum BoolOp {
    And,
    Or,
    Xor,
}

/// Memory ordering of an access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Semantics {
    Weak,
    Volatile,
    Relaxed,
    Acquire,
    Release,
    AcquireRelease,
}

/// Threads that an ordering reaches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Scope {
    Cta,
    Cluster,
    Gpu,
    System,
}

/// Atomic operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum AtomicOp {
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
    Exchange,
    CompareAndSwap,
    Increment,
    Decrement,
}

/// How `shfl` picks its source lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum ShuffleMode {
    Up,
    Down,
    Butterfly,
    Index,
}

/// What `vote` computes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum VoteMode {
    All,
    Any,
    Uniform,
    Ballot,
}

/// What `redux` computes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum ReduceOp {
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
    Increment,
    Decrement,
}

/// Fences.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fence {
    /// `membar`, `fence.sc`, `fence.acq_rel`.
    Memory {
        /// Whether it is sequentially consistent.
        sequential: bool,
        /// Its scope.
        scope: Scope,
    },
    /// `fence.mbarrier_init.release.cluster`.
    MbarrierInit,
    /// `fence.proxy.async`, for one space or (`Generic`) all.
    ProxyAsync(Space),
    /// `fence.proxy.alias`.
    ProxyAlias,
}

/// The expected count of an arrival.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrive {
    /// Where the barrier lies.
    pub space: Space,
    /// `.expect_tx`: bytes.
    pub expect_tx: Option<Operand>,
    /// Arrivals; 1 if not given.
    pub count: Option<Operand>,
    /// `arrive_drop`: later phases expect as many fewer.
    pub drop: bool,
    /// `.noComplete`
    pub no_complete: bool,
    /// Register for the state before the arrival.
    pub state: Option<Reg>,
    /// Semantics and scope, if given.
    pub order: Option<(Semantics, Scope)>,
}

/// The phase that a wait asks about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitPhase {
    /// The state that an arrival returned.
    State(Operand),
    /// `.parity`
    Parity(Operand),
}

/// A coordinate list of a tensor copy, and its map.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TensorAddress {
    /// Address of the tensor map.
    pub map: Address,
    /// One coordinate a dimension, innermost first.
    pub coordinates: Vec<Operand>,
}

/// Instructions that copy in bulk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Bulk {
    /// `cp.async.bulk.tensor` from global to shared memory.
    TensorLoad {
        /// Address in shared memory.
        dst: Address,
        /// What is read.
        src: TensorAddress,
        /// The barrier that counts the bytes.
        barrier: Address,
        /// `.multicast::cluster`: mask of ranks.
        multicast: Option<Operand>,
    },
    /// `cp.async.bulk.tensor` from shared to global memory.
    TensorStore {
        /// What is written.
        dst: TensorAddress,
        /// Address in shared memory.
        src: Address,
    },
    /// `cp.reduce.async.bulk.tensor` from shared to global memory.
    TensorReduce {
        /// The operation.
        op: ReduceOp,
        /// What is changed.
        dst: TensorAddress,
        /// Address in shared memory.
        src: Address,
    },
    /// `cp.async.bulk.prefetch.tensor`.
    TensorPrefetch {
        /// What is brought to the L2 cache.
        src: TensorAddress,
    },
    /// `cp.async.bulk` from global to shared memory.
    Load {
        /// Address in shared memory.
        dst: Address,
        /// Address in global memory.
        src: Address,
        /// Bytes.
        bytes: Operand,
        /// The barrier that counts the bytes.
        barrier: Address,
        /// `.multicast::cluster`: mask of ranks.
        multicast: Option<Operand>,
    },
    /// `cp.async.bulk` from shared to global memory.
    Store {
        /// Address in global memory.
        dst: Address,
        /// Address in shared memory.
        src: Address,
        /// Bytes.
        bytes: Operand,
    },
    /// `cp.async.bulk` from this block's shared memory to that of the cluster.
    Peer {
        /// Address in the cluster's shared memory.
        dst: Address,
        /// Address in this block's.
        src: Address,
        /// Bytes.
        bytes: Operand,
        /// The barrier, of the destination's block, that counts the bytes.
        barrier: Address,
    },
    /// `cp.async.bulk.commit_group`.
    Commit,
    /// `cp.async.bulk.wait_group`, or with `.read` only until the sources have been read.
    Wait {
        /// Groups that may still run.
        pending: u32,
        /// `.read`
        read: bool,
    },
}

/// The A operand of a wgmma.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WgmmaA {
    /// A matrix descriptor.
    Descriptor(Operand),
    /// Registers.
    Registers(Vec<Reg>),
}

/// `wgmma.mma_async.sync.aligned.m64nNkK`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wgmma {
    /// Columns.
    pub n: u32,
    /// Extent in K.
    pub k: u32,
    /// Type of D.
    pub d_type: Type,
    /// Type of A.
    pub a_type: Type,
    /// Type of B.
    pub b_type: Type,
    /// Accumulators.
    pub d: Vec<Reg>,
    /// A.
    pub a: WgmmaA,
    /// Descriptor of B.
    pub b: Operand,
    /// Whether D is added to the product.
    pub scale_d: ScaleD,
    /// `imm-scale-a` and `imm-scale-b`: whether the operand is negated.
    pub negate: [bool; 2],
    /// `imm-trans-a` and `imm-trans-b`: whether the operand is MN-major.
    pub transpose: [bool; 2],
}

/// The `scale-d` operand of a wgmma.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScaleD {
    /// A predicate register or its complement.
    Pred(PredUse),
    /// A constant.
    Const(bool),
}

/// `mma.sync.aligned.mMnNkK.row.col`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mma {
    /// M, N, K.
    pub shape: [u32; 3],
    /// Type of D and C.
    pub d_type: Type,
    /// Type of A and B.
    pub ab_type: Type,
    /// D.
    pub d: Vec<Reg>,
    /// A.
    pub a: Vec<Operand>,
    /// B.
    pub b: Vec<Operand>,
    /// C.
    pub c: Vec<Operand>,
}

/// An operation with its operands. Destinations are `None` where the text has the sink `_`.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs)]
pub enum Op {
    Unary {
        op: UnaryOp,
        ty: Type,
        mode: FloatMode,
        dst: Reg,
        a: Operand,
    },
    Binary {
        op: BinaryOp,
        ty: Type,
        mode: FloatMode,
        dst: Reg,
        a: Operand,
        b: Operand,
    },
    Ternary {
        op: TernaryOp,
        ty: Type,
        mode: FloatMode,
        dst: Reg,
        a: Operand,
        b: Operand,
        c: Operand,
    },
    /// `bfi`: `a` put into `b` at bit `position`, `length` bits.
    FieldInsert {
        ty: Type,
        dst: Reg,
        a: Operand,
        b: Operand,
        position: Operand,
        length: Operand,
    },
    /// `lop3` with its truth table.
    Lop3 {
        dst: Reg,
        a: Operand,
        b: Operand,
        c: Operand,
        table: u8,
    },
    /// `setp`, with the optional combination with a third predicate.
    SetPredicate {
        cmp: Compare,
        ty: Type,
        ftz: bool,
        combine: Option<(BoolOp, PredOperand)>,
        dst: Option<Pred>,
        complement: Option<Pred>,
        a: Operand,
        b: Operand,
    },
    /// `selp`
    Select {
        ty: Type,
        dst: Reg,
        a: Operand,
        b: Operand,
        pred: PredOperand,
    },
    /// `and.pred`, `or.pred`, `xor.pred`
    PredBinary {
        op: BoolOp,
        dst: Pred,
        a: PredOperand,
        b: PredOperand,
    },
    /// `not.pred` and `mov.pred`
    PredMove {
        dst: Pred,
        a: PredOperand,
        negate: bool,
    },
    Move {
        ty: Type,
        dst: Reg,
        a: Operand,
    },
    /// `mov.b64 {a, b}, c`: splits `a`, lowest part first.
    Unpack {
        ty: Type,
        dst: Vec<Option<Reg>>,
        a: Operand,
    },
    /// `mov.b64 a, {b, c}`: joins, lowest part first.
    Pack {
        ty: Type,
        dst: Reg,
        parts: Vec<Operand>,
    },
    Convert {
        to: Type,
        from: Type,
        mode: FloatMode,
        dst: Reg,
        a: Operand,
    },
    /// `cvt` of two f32 into one packed register; `a` becomes the upper half.
    ConvertPair {
        to: Type,
        mode: FloatMode,
        dst: Reg,
        a: Operand,
        b: Operand,
    },
    /// `cvta` (`to` false: to generic) and `cvta.to`.
    ConvertAddress {
        space: Space,
        to: bool,
        dst: Reg,
        a: Operand,
    },
    /// `isspacep`
    IsSpace {
        space: Space,
        dst: Pred,
        a: Operand,
    },
    Load {
        space: Space,
        order: Semantics,
        scope: Option<Scope>,
        ty: Type,
        dst: Vec<Option<Reg>>,
        address: Address,
    },
    Store {
        space: Space,
        order: Semantics,
        scope: Option<Scope>,
        ty: Type,
        address: Address,
        src: Vec<Operand>,
    },
    /// `atom` and `red` (`dst` is `None`).
    Atomic {
        op: AtomicOp,
        order: Semantics,
        scope: Scope,
        space: Space,
        ty: Type,
        dst: Option<Reg>,
        address: Address,
        a: Operand,
        b: Option<Operand>,
    },
    /// `prefetch`: no effect on values.
    Prefetch {
        space: Space,
        address: Address,
    },
    /// `createpolicy`: a cache policy, which changes no value.
    CreatePolicy {
        dst: Reg,
    },
    /// `prefetch.tensormap`
    PrefetchTensorMap {
        address: Address,
    },
    Branch {
        target: Label,
        uniform: bool,
    },
    /// `ret` of an entry, and `exit`.
    Exit,
    Trap,
    /// `brkpt`
    Breakpoint,
    Nanosleep {
        time: Operand,
    },
    Fence(Fence),
    /// `bar.sync` and `barrier.sync`; `count` is `None` for all threads of the block.
    BarrierSync {
        id: Operand,
        count: Option<Operand>,
        aligned: bool,
    },
    /// `bar.arrive` and `barrier.arrive`
    BarrierArrive {
        id: Operand,
        count: Operand,
        aligned: bool,
    },
    /// `bar.warp.sync`
    WarpSync {
        mask: Operand,
    },
    ClusterArrive {
        order: Semantics,
        aligned: bool,
    },
    ClusterWait {
        aligned: bool,
    },
    MbarrierInit {
        space: Space,
        barrier: Address,
        count: Operand,
    },
    MbarrierInvalidate {
        space: Space,
        barrier: Address,
    },
    MbarrierArrive {
        barrier: Address,
        arrive: Arrive,
    },
    MbarrierExpectTx {
        space: Space,
        barrier: Address,
        bytes: Operand,
    },
    MbarrierCompleteTx {
        space: Space,
        barrier: Address,
        bytes: Operand,
    },
    /// `test_wait` (`block` false) and `try_wait`
    MbarrierWait {
        space: Space,
        barrier: Address,
        phase: WaitPhase,
        block: bool,
        dst: Pred,
    },
    MbarrierPendingCount {
        dst: Reg,
        state: Operand,
    },
    Bulk(Bulk),
    /// `cp.async.ca` and `.cg`: `bytes` to shared memory, of which `source` (all if absent) are read and
    /// the rest zero.
    CopyAsync {
        dst: Address,
        src: Address,
        bytes: u32,
        source: Option<Operand>,
    },
    CopyAsyncCommit,
    /// `cp.async.wait_group`; `wait_all` is `pending` 0 and includes what no commit covers.
    CopyAsyncWait {
        pending: u32,
        all: bool,
    },
    /// `cp.async.mbarrier.arrive`
    CopyAsyncArrive {
        barrier: Address,
        no_increment: bool,
    },
    Wgmma(Box<Wgmma>),
    WgmmaFence,
    WgmmaCommit,
    WgmmaWait {
        pending: u32,
    },
    Mma(Box<Mma>),
    /// `ldmatrix.m8n8`
    LoadMatrix {
        transpose: bool,
        dst: Vec<Reg>,
        address: Address,
    },
    /// `stmatrix.m8n8`
    StoreMatrix {
        transpose: bool,
        address: Address,
        src: Vec<Operand>,
    },
    Shuffle {
        mode: ShuffleMode,
        dst: Reg,
        valid: Option<Pred>,
        a: Operand,
        lane: Operand,
        clamp: Operand,
        mask: Operand,
    },
    /// `vote.sync`: a predicate, or for `ballot` a register.
    Vote {
        mode: VoteMode,
        dst_pred: Option<Pred>,
        dst: Option<Reg>,
        a: PredOperand,
        mask: Operand,
    },
    Redux {
        op: ReduceOp,
        ty: Type,
        dst: Reg,
        a: Operand,
        mask: Operand,
    },
    /// `activemask`
    ActiveMask {
        dst: Reg,
    },
    /// `elect.sync`
    Elect {
        dst: Option<Reg>,
        elected: Pred,
        mask: Operand,
    },
    /// `mapa`: the address in block `rank` of the cluster that corresponds to `a` here.
    MapAddress {
        space: Space,
        ty: Type,
        dst: Reg,
        a: Operand,
        rank: Operand,
    },
    /// `getctarank`
    CtaRank {
        space: Space,
        dst: Reg,
        a: Operand,
    },
    SetMaxRegisters {
        increase: bool,
        count: u32,
    },
    /// `griddepcontrol.wait`
    GridDependencyWait,
    /// `griddepcontrol.launch_dependents`
    GridDependencyLaunch,
}

impl Operand {
    fn register(self, out: &mut Vec<Reg>) {
        if let Operand::Reg(reg) = self {
            out.push(reg);
        }
    }
}

impl Op {
    /// Every general register that the instruction reads or writes.
    pub fn registers(&self) -> Vec<Reg> {
        let mut regs = Vec::new();
        let mut operands: Vec<Operand> = Vec::new();
        match self {
            Op::Unary { dst, a, .. }
            | Op::Move { dst, a, .. }
            | Op::Convert { dst, a, .. }
            | Op::ConvertAddress { dst, a, .. }
            | Op::CtaRank { dst, a, .. } => {
                regs.push(*dst);
                operands.push(*a);
            }
            Op::Binary { dst, a, b, .. } | Op::ConvertPair { dst, a, b, .. } | Op::Select { dst, a, b, .. } => {
                regs.push(*dst);
                operands.extend([*a, *b]);
            }
            Op::Ternary { dst, a, b, c, .. } | Op::Lop3 { dst, a, b, c, .. } => {
                regs.push(*dst);
                operands.extend([*a, *b, *c]);
            }
            Op::FieldInsert { dst, a, b, position, length, .. } => {
                regs.push(*dst);
                operands.extend([*a, *b, *position, *length]);
            }
            Op::SetPredicate { a, b, .. } => operands.extend([*a, *b]),
            Op::IsSpace { a, .. } => operands.push(*a),
            Op::Unpack { dst, a, .. } => {
                regs.extend(dst.iter().flatten());
                operands.push(*a);
            }
            Op::Pack { dst, parts, .. } => {
                regs.push(*dst);
                operands.extend(parts);
            }
            Op::Load { dst, address, .. } => {
                regs.extend(dst.iter().flatten());
                operands.push(address.base);
            }
            Op::Store { address, src, .. } => {
                operands.push(address.base);
                operands.extend(src);
            }
            Op::Atomic { dst, address, a, b, .. } => {
                regs.extend(dst);
                operands.extend([address.base, *a]);
                operands.extend(b);
            }
            Op::Prefetch { address, .. } | Op::PrefetchTensorMap { address } => operands.push(address.base),
            Op::CreatePolicy { dst } | Op::ActiveMask { dst } => regs.push(*dst),
            Op::Nanosleep { time } => operands.push(*time),
            Op::BarrierSync { id, count, .. } => {
                operands.push(*id);
                operands.extend(count);
            }
            Op::BarrierArrive { id, count, .. } => operands.extend([*id, *count]),
            Op::WarpSync { mask } => operands.push(*mask),
            Op::MbarrierInit { barrier, count, .. } => operands.extend([barrier.base, *count]),
            Op::MbarrierInvalidate { barrier, .. } => operands.push(barrier.base),
            Op::MbarrierArrive { barrier, arrive } => {
                operands.push(barrier.base);
                operands.extend(arrive.expect_tx);
                operands.extend(arrive.count);
                regs.extend(arrive.state);
            }
            Op::MbarrierExpectTx { barrier, bytes, .. } | Op::MbarrierCompleteTx { barrier, bytes, .. } => {
                operands.extend([barrier.base, *bytes]);
            }
            Op::MbarrierWait { barrier, phase, .. } => {
                let (WaitPhase::State(phase) | WaitPhase::Parity(phase)) = phase;
                operands.extend([barrier.base, *phase]);
            }
            Op::MbarrierPendingCount { dst, state } => {
                regs.push(*dst);
                operands.push(*state);
            }
            Op::Bulk(bulk) => bulk.operands(&mut operands),
            Op::CopyAsync { dst, src, source, .. } => {
                operands.extend([dst.base, src.base]);
                operands.extend(source);
            }
            Op::CopyAsyncArrive { barrier, .. } => operands.push(barrier.base),
            Op::Wgmma(wgmma) => {
                regs.extend(&wgmma.d);
                operands.push(wgmma.b);
                match &wgmma.a {
                    WgmmaA::Descriptor(a) => operands.push(*a),
                    WgmmaA::Registers(a) => regs.extend(a),
                }
            }
            Op::Mma(mma) => {
                regs.extend(&mma.d);
                operands.extend(mma.a.iter().chain(&mma.b).chain(&mma.c));
            }
            Op::LoadMatrix { dst, address, .. } => {
                regs.extend(dst);
                operands.push(address.base);
            }
            Op::StoreMatrix { address, src, .. } => {
                operands.push(address.base);
                operands.extend(src);
            }
            Op::Shuffle { dst, a, lane, clamp, mask, .. } => {
                regs.push(*dst);
                operands.extend([*a, *lane, *clamp, *mask]);
            }
            Op::Vote { dst, mask, .. } => {
                regs.extend(dst);
                operands.push(*mask);
            }
            Op::Redux { dst, a, mask, .. } => {
                regs.push(*dst);
                operands.extend([*a, *mask]);
            }
            Op::Elect { dst, mask, .. } => {
                regs.extend(dst);
                operands.push(*mask);
            }
            Op::MapAddress { dst, a, rank, .. } => {
                regs.push(*dst);
                operands.extend([*a, *rank]);
            }
            Op::PredBinary { .. }
            | Op::PredMove { .. }
            | Op::Branch { .. }
            | Op::Exit
            | Op::Trap
            | Op::Breakpoint
            | Op::Fence(_)
            | Op::ClusterArrive { .. }
            | Op::ClusterWait { .. }
            | Op::CopyAsyncCommit
            | Op::CopyAsyncWait { .. }
            | Op::WgmmaFence
            | Op::WgmmaCommit
            | Op::WgmmaWait { .. }
            | Op::SetMaxRegisters { .. }
            | Op::GridDependencyWait
            | Op::GridDependencyLaunch => {}
        }
        for operand in operands {
            operand.register(&mut regs);
        }
        regs
    }
}

impl Bulk {
    fn operands(&self, out: &mut Vec<Operand>) {
        match self {
            Bulk::TensorLoad { dst, src, barrier, multicast } => {
                out.extend([dst.base, src.map.base, barrier.base]);
                out.extend(&src.coordinates);
                out.extend(multicast);
            }
            Bulk::TensorStore { dst, src } | Bulk::TensorReduce { dst, src, .. } => {
                out.extend([dst.map.base, src.base]);
                out.extend(&dst.coordinates);
            }
            Bulk::TensorPrefetch { src } => {
                out.push(src.map.base);
                out.extend(&src.coordinates);
            }
            Bulk::Load { dst, src, bytes, barrier, multicast } => {
                out.extend([dst.base, src.base, *bytes, barrier.base]);
                out.extend(multicast);
            }
            Bulk::Store { dst, src, bytes } => out.extend([dst.base, src.base, *bytes]),
            Bulk::Peer { dst, src, bytes, barrier } => out.extend([dst.base, src.base, *bytes, barrier.base]),
            Bulk::Commit | Bulk::Wait { .. } => {}
        }
    }
}
