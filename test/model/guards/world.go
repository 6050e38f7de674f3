package guards

// kind of a rule.
type kind uint8

const (
	// apart is required anti-affinity: no matching pod in the carrier's zone.
	apart kind = iota
	// even is hard spread: at most one more matching pod in the carrier's zone than in
	// the zone with the fewest.
	even
	// together is required affinity: a matching pod in the carrier's zone, or none at all
	// and the carrier matches itself.
	together
)

const (
	zones    = 2
	maxTerms = 2
	maxPods  = 3
	shards   = maxPods
)

// scenario is a cluster to explore. What cannot matter is left out, to keep it small.
type scenario struct {
	// terms are the kinds of the rules, in the order of the bits in a pod.
	terms []kind
	pods  []pod
	// handOver: entries of bound pods leave the ledger. late: shards do not know each other's
	// pods from the start.
	handOver, late bool
	// deletes is how many pods may be deleted, retire how often a term may leave the registry.
	deletes, retire int
}

// pod names the terms a pod carries, those that select it, and the shard that places it.
type pod struct {
	shard            int
	carries, matches uint8
}

func (p pod) carriesTerm(t int) bool { return p.carries>>t&1 == 1 }
func (p pod) matchesTerm(t int) bool { return p.matches>>t&1 == 1 }

// world is a state of the model: the history of the ledger and the API server, and each shard's view of it.
type world struct {
	ledger history
	facts  history
	shards [shards]shard
	// broken is the rule that the last placement broke.
	broken string
}

// history is a list of records, as a string so that worlds can be compared.
type history string

const recordSize = 4

// record is one transaction of the ledger or one write of the API server.
type record struct {
	what what
	// subject is a pod or, for registrations, a term.
	subject uint8
	zone    uint8
	// more is a placement's use of guards (see use), or the length up to which the history of facts must have been
	// read before an entry may be absent.
	more uint8
}

type what uint8

const (
	registered what = iota + 1
	retiring
	retired
	placed
	handedOver
	created
	bound
	deleted
)

func (h history) len() int { return len(h) / recordSize }

func (h history) at(i int) record {
	b := h[i*recordSize:]
	return record{what: what(b[0]), subject: b[1], zone: b[2], more: b[3]}
}

func (h history) and(r record) history {
	return h + history([]byte{byte(r.what), r.subject, r.zone, r.more})
}

// last is the revision (1 is the first record) of the last record up to a revision that
// does one of these things to a subject; 0 when there is none.
func (h history) last(upTo, subject int, did ...what) int {
	for i := upTo - 1; i >= 0; i-- {
		r := h.at(i)
		if int(r.subject) != subject {
			continue
		}
		for _, d := range did {
			if r.what == d {
				return i + 1
			}
		}
	}
	return 0
}

// registry is the revision of the registry of terms.
func (h history) registry(upTo int) int {
	for i := upTo - 1; i >= 0; i-- {
		if r := h.at(i); r.what <= retired {
			return i + 1
		}
	}
	return 0
}

// known reports whether a term is in the registry, and whether it may be used by carriers.
func (h history) known(upTo, term int) (in, usable bool) {
	at := h.last(upTo, term, registered, retiring, retired)
	if at == 0 {
		return false, false
	}
	did := h.at(at - 1).what
	return did != retired, did == registered
}

// use is how a placement uses the two guards of one term in its zone.
type use uint8

const (
	compareC use = 1 << iota
	compareM
	putC
	putM
	useBits = 4
)

func (r record) use(term int) use { return use(r.more>>(useBits*term)) & (1<<useBits - 1) }

// guard is the revision of one guard. Guards of affinity cover the whole cluster.
func (h history) guard(s *scenario, upTo, term int, zone uint8, put use) int {
	for i := upTo - 1; i >= 0; i-- {
		r := h.at(i)
		if r.what == placed && r.use(term)&put != 0 && (r.zone == zone || s.terms[term] == together) {
			return i + 1
		}
	}
	return 0
}

// shard is one shard's knowledge and what it is about to do.
type shard struct {
	// ledger and facts are how much of each it has read.
	ledger, facts uint8
	// own is the revision of its last placement, of which it knows by the answer.
	own uint8
	// ahead is the revision up to which it takes unread guards for read: always 0 without an ablation that changes
	// it.
	ahead uint8
	// flight is on its way to the ledger; next was decided while it was, and counts it.
	flight, next pick
}

// pick is a decided placement. The zero pick is none.
type pick struct {
	pod, zone uint8 // pod + 1
	first     bool  // by the first-pod rule
	use       uint8 // as in record.more
	registry  uint8
	guardC    [maxTerms]uint8
	guardM    [maxTerms]uint8
	// facts is how much of them the decision had read.
	facts uint8
	// counted is the pod + 1 that was counted though only on its way, in flight.
	counted uint8
}

func (p pick) none() bool { return p.pod == 0 }

func (p pick) useOf(term int) use { return record{more: p.use}.use(term) }
