package sim

// transactions are those of the protocol that exist, each with both its branches.
var transactions = []string{
	"T1", "T2", "T3", "T4", "T5", "T6", "T7", "T8", "T11", "T12", "T13", "T13 release", "T15", "T16",
	"evict-claim", "evict-mark", "evict-take", "evict-failed", "budget-settle", "sweep", "plan-drop",
	"move-abort", "leftover",
}

// crashPoints are the calls before, during and after which processes die: T1 and T11 are a
// shard's, T12 is the descheduler's, the rest are the binders' and the keepers'.
var crashPoints = []string{
	"T1", "T5", "T6", "T7", "T11", "T12", "T13", "T15", "T16", "bind", "fence", "condition", "claim", "settle",
}

// CoverageGoals lists what a run can meet. In the long mode each must be met in at least one of a
// hundred seeds.
func CoverageGoals() []string {
	out := []string{
		"hint lost", "hint repeated", "hint overtaken",
		"facts delivered again", "decisions delivered again",
		"append lost before it was stored", "append stored, not acknowledged",
		"append of facts lost", "append of facts not acknowledged", "append of facts late", "late append of facts stored",
		"crash between two facts",
		"lost tail of the facts", "lost tail found by its end", "lost tail found by its epoch", "gap in the facts",
		"old facts trimmed", "facts begun from a snapshot",
		"request to etcd lost", "request to etcd late", "late etcd call carried out", "answer of etcd lost",
		"request to api lost", "request to api late", "late api call carried out", "answer of api lost",
		"etcd leader change", "etcd without a leader: outcome unknown", "ledger watch compacted",
		"list of the ledger behind an own transaction",
		"API watch expired", "relist", "cut off from etcd", "cut off from api", "cut off from log",
		"clock skew", "lease expired", "lease lost, rejoined",
		"pause longer than the lease of a queue", "pause longer than the lease of a scheduler",
		"pause longer than the lease of a binder", "pause longer than the lease of a descheduler",
		"streams of a queue stalled", "streams of a scheduler stalled", "streams of a binder stalled",
		"streams of a descheduler stalled", "crash of a descheduler", "descheduler drained", "descheduler takes over",
		"binder stalled after a refused bind",
		"crash of a queue", "crash of a scheduler", "crash of a binder",
		"queue resigned", "shard drained", "binder drained",
		"queue takes over", "queue deposed: session lost", "writer found the log diverged",
		"round opened by list", "round opened by repair", "facts told anew", "log not followed by its leader",
		"bind: done", "bind: refused", "bind: moved", "announced",
		"evict: done", "evict: gone", "evict: throttled",
		"victim evicted", "victim of a preemption evicted", "plan handed on", "fenced after a preemption",
		"place of a move taken over", "place of a move taken by somebody more important", "victim of a move evicted",
		"node deleted", "node deleted under reservations", "node registered again",
		"node registered again with pods bound to its name", "pod of a deleted node collected",
		"node shrank", "node shrank below what stands there", "node grew",
		"partition taken over and given back", "pod reserved by another shard before its partition came back",
		"take of a partition late", "document of a later version", "entry of a later version",
		"fields of a later version written again",
		"ledger wiped", "ledger restored from a backup", "store found to have begun anew", "next generation opened",
		"Kubernetes restored from a backup", "Kubernetes found to have gone back", "facts told anew with a generation",
		"watch not resumed, because Kubernetes went back", "listed again after the API server was away",
		"transaction carried out by a store that began anew",
		"poison among the decisions", "poison among the facts",
		"devices given", "devices taken back", "devices given back",
		"pod touched", "labels of a waiting pod changed", "pod ended",
	}
	if sizedShare > 0 {
		out = append(out, "pod that fills a document", "pod larger than a document", "pod with many rules",
			"pod with more rules than a transaction takes")
	}
	for _, t := range transactions {
		out = append(out, t+": then", t+": else")
	}
	for _, c := range crashPoints {
		out = append(out, "crash before "+c, "crash during "+c, "crash after "+c)
	}
	return out
}

// hit counts an event. Of crashes only the points that matter count: reads, and calls that a later life repeats
// unchanged.
func (w *world) hit(what string) {
	if coverageGoals[what] {
		w.report.Hits[what]++
	}
}

var coverageGoals = func() map[string]bool {
	set := map[string]bool{}
	for _, what := range CoverageGoals() {
		set[what] = true
	}
	return set
}()
