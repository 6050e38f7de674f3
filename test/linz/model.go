package linz

import (
	"fmt"
	"hash/fnv"
	"strings"

	"github.com/anishathalye/porcupine"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/roster"
)

// keysPerRound is how many keys the clients of one round share: few, so that they meet, and so
// that porcupine, whose problem is NP-hard, is done in no time.
const keysPerRound = 8

// content identifies a value of a key; 0 is none. No value is ever written twice to a key, so a revision and a
// content carry the same information.
type content uint64

// contentOf is the content of a stored value.
func contentOf(value []byte) content {
	h := fnv.New64a()
	_, _ = h.Write(value) // a hash never fails
	return content(h.Sum64() | 1)
}

// ledgerState is the state of a round's keys, by their index.
type ledgerState [keysPerRound]content

// operation is the input of one step: a transaction, a read of all keys, or the end of a lease.
type operation struct {
	kind opKind
	// Of a transaction: the values that it compares and puts (0: deletes), by key.
	compares, puts map[int]content
	// Of the end of a lease: the key on it, and its value.
	key  int
	held content
}

type opKind uint8

const (
	opTxn opKind = iota
	opRead
	opExpire
)

// answer is the output of one step.
type answer struct {
	// unknown: no answer came; the step may have happened or not.
	unknown   bool
	succeeded bool
	// seen are the contents of a read, or of the compared keys of a failed transaction.
	seen map[int]content
}

// model is the specification against which porcupine checks a history.
var model = porcupine.Model{
	Init:  func() any { return ledgerState{} },
	Equal: func(a, b any) bool { return a == b },
	Step: func(state, input, output any) (bool, any) {
		return step(state.(ledgerState), input.(operation), output.(answer))
	},
	DescribeOperation: func(input, output any) string { return describe(input.(operation), output.(answer)) },
}

func step(p ledgerState, in operation, out answer) (bool, ledgerState) {
	switch in.kind {
	case opRead:
		return out.unknown || p.shows(out.seen), p
	case opExpire:
		if p[in.key] == in.held {
			p[in.key] = 0
		}
		return true, p
	}
	holds := p.shows(in.compares)
	switch {
	case out.unknown && !holds:
		return true, p
	case !out.unknown && out.succeeded != holds, !out.unknown && !holds && !p.shows(out.seen):
		return false, p
	case !holds:
		return true, p
	}
	for key, c := range in.puts {
		p[key] = c
	}
	return true, p
}

func (p ledgerState) shows(seen map[int]content) bool {
	for key, c := range seen {
		if p[key] != c {
			return false
		}
	}
	return true
}

func describe(in operation, out answer) string {
	switch in.kind {
	case opRead:
		return fmt.Sprintf("read %s", short(out.seen))
	case opExpire:
		return fmt.Sprintf("the lease of key %d ends", in.key)
	}
	result := "lost, saw " + short(out.seen)
	if out.unknown {
		result = "unknown"
	} else if out.succeeded {
		result = "done"
	}
	return fmt.Sprintf("if %s put %s: %s", short(in.compares), short(in.puts), result)
}

func short(m map[int]content) string {
	var parts []string
	for key := range keysPerRound {
		if c, ok := m[key]; ok {
			parts = append(parts, fmt.Sprintf("%d=%04x", key, uint64(c)&0xffff))
		}
	}
	return strings.Join(parts, " ")
}

// site are the keys of one round: two partitions, the documents of three nodes of which two have the same name, the
// incarnations of the names, and the floor.
type site struct {
	keys  []string
	pods  [2]string // a pod UID of each partition
	parts [2]int32
	nodes []string
	names map[string]string
}

func newSite() *site {
	s := &site{nodes: []string{"a", "b", "c"}, names: map[string]string{"a": "one", "b": "one", "c": "two"}}
	for i := 0; s.pods[1] == ""; i++ {
		uid := fmt.Sprintf("pod-%d", i)
		part := ledger.PartitionOf(uid)
		if s.pods[0] == "" {
			s.pods[0], s.parts[0] = uid, part
		} else if part != s.parts[0] {
			s.pods[1], s.parts[1] = uid, part
		}
	}
	for _, p := range s.parts {
		s.keys = append(s.keys, roster.KeyOwn(p))
	}
	for _, n := range s.nodes {
		s.keys = append(s.keys, ledger.KeyNode(n))
	}
	s.keys = append(s.keys, ledger.KeyIncarnation("one"), ledger.KeyIncarnation("two"), ledger.KeyFloor)
	return s
}

func (s *site) index(key string) (int, bool) {
	for i, k := range s.keys {
		if k == key {
			return i, true
		}
	}
	return 0, false
}

// seen are the contents of what the store returned, with 0 for keys that do not exist.
func (s *site) seen(kvs []ledger.KV, keys map[int]content) map[int]content {
	out := map[int]content{}
	for key := range keys {
		out[key] = 0
	}
	for _, kv := range kvs {
		if i, ok := s.index(kv.Key); ok {
			out[i] = contentOf(kv.Value)
		}
	}
	return out
}
