// Package gang models gangs: pods of which a minimum is placed together or not at all, however many shards are active
// (pkg/ledger: T9, and the parts of T1 to T8 that meet it).
//
// A gang has one record, and numbered attempts. The shard that has the gang's partition forms an attempt, and pledges
// places to the members in any number of transactions. A pledge takes room like a committed reservation, and no binder
// binds it. One compare-and-set of the record then commits all pledges of the attempt, or aborts them: an entry that
// names its attempt is worth what the record says. A void one takes no room, and can be dropped.
//
// A member may also get a place on which a victim runs. Such a place is held and the victim claimed, with all others
// of its unit (pods that are only evicted together). When every place is there and all claims are, the record becomes
// ready. Only then may victims be marked and evicted, and when they have gone the place settles to a pledge.
//
// The model has one or two gangs of one or two members, a more important pod of another partition that may displace
// them, victims, and two nodes. A shard reads the ledger arbitrarily late, and learns of single documents ahead of its
// watch, from the answers to transactions. Partitions change hands, attempts are aborted at any moment by any member,
// reservations are fenced, and records dropped. Of two gangs that are in each other's way the later one yields.
//
// Binders are not modeled one by one: each acts on a picture of the ledger as of one moment, and that may be any
// moment that has been. So a pod may be bound from then on that any picture has shown its place committed, until a
// fence changes the pod.
//
// Invariants: no node is overcommitted, with pledges; no pod has two places; no pod is bound without a reservation
// that is committed by itself or by its record; a commit finds as many members as the gang needs; no victim is marked
// for a gang that cannot start, or without the rest of its unit; a place for which a victim is evicted is not lost to
// a pod that is less important. And no history can go on without end or end badly: when nothing can happen any more,
// no attempt is open, and a gang runs if there was room for one.
//
// Left out, because package reserve has it: all shards know at once which pods are bound and gone, so there is no
// high-water, and entries of bound pods need no hand-over. Guards are in package guards: a pledge compares and puts
// them like any placement. Budgets are in package budget. Neither holds that outlast an attempt (gathering) nor
// topology are modeled.
//
// Start reading at world (the state), then model.next (the possible steps). The rule that decides what an entry is
// worth is model.judge.
package gang
