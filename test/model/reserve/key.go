package reserve

import (
	"bytes"
	"math/bits"
)

// key distinguishes states. Pods of one shard are alike, and so are nodes: of all ways to name them the key is the
// first in order. Of resourceVersions only their order matters, and only which processes have reached those that are
// or may become a document's high-water.
func (m *model) key(w *world, buf []byte) []byte {
	k := keyer{m: m, w: w, levels: m.levels(w)}
	for i, as := range m.symmetries {
		k.as = as
		k.buf = m.scratch[:0]
		k.write()
		m.scratch = k.buf
		if i == 0 || bytes.Compare(m.scratch, buf) < 0 {
			buf = append(buf[:0], m.scratch...)
		}
	}
	return buf
}

// levels are, as bits, the resourceVersions that a process may have to reach yet.
func (m *model) levels(w *world) uint64 {
	var all uint64
	for n := range m.nodes {
		all |= 1 << w.docs[n].hw
		for p := range m.owner {
			all |= 1 << w.docs[n].entries[p].changed
		}
	}
	for p := range m.owner {
		if w.left.placements > 0 || w.pods[p].pick != 0 || w.reserved(m.nodes, p) {
			all |= 1 << w.pods[p].since
		}
	}
	reached := w.rev
	for i := range m.shards() {
		reached = min(reached, w.shards[i].progress)
	}
	return all &^ (2<<reached - 1)
}

// keyer writes the key of a state under one renaming.
type keyer struct {
	m      *model
	w      *world
	as     renaming
	levels uint64
	buf    []byte
}

func (k *keyer) put(b ...byte) { k.buf = append(k.buf, b...) }

func (k *keyer) write() {
	l := k.w.left
	k.put(l.placements<<4|l.fences<<2|l.outages, l.updates<<4|l.deletes<<2|bit(k.w.log.down)<<1, byte(k.w.violation))
	for _, p := range k.as.podAt {
		k.pod(p)
	}
	for _, n := range k.as.nodeAt {
		k.put(k.level(k.w.docs[n].hw))
		for i := range k.m.shards() {
			k.read(i, n)
		}
	}
	for i := range k.m.shards() {
		s := &k.w.shards[i]
		k.put(s.at<<2|bit(s.beyond)<<1|bit(s.blind), k.level(s.progress))
	}
	for _, r := range k.w.log.records[:k.w.log.len] {
		k.put(byte(r.kind), k.level(r.progress))
		if r.kind == fact {
			k.put(byte(k.as.pods[r.pod])<<4 | k.podView(r.podView, &k.w.pods[r.pod]))
		}
	}
}

// pod is one pod: at the API server, in the log, for each shard, and in each document.
func (k *keyer) pod(p int) {
	pod := &k.w.pods[p]
	asked := pod.asked
	if !pod.pending() {
		asked = 0
	}
	k.put(k.node(pod.node)|bit(pod.gone)<<2|k.nodes(asked)<<3|k.node(pod.pick)<<5, k.level(pod.since))
	if pod.pick != 0 {
		k.put(bit(pod.pickRV == pod.rv))
	}
	if k.m.ablated != "" {
		k.put(k.nodes(pod.placed))
	}
	k.put(k.podView(k.w.log.before[p], pod))
	for i := range k.m.shards() {
		b := k.podView(k.w.shards[i].cache[p], pod)
		if !pod.pending() {
			b &^= newest // it matters for binds only
		}
		k.put(b)
	}
	for _, n := range k.as.nodeAt {
		e := k.w.docs[n].entries[p]
		k.put(byte(e.state)|bit(e.bound)<<2|bit(e.changed != 0)<<3, k.level(e.changed))
	}
}

// read is a document as a shard has read it, in the ablation that looks at that.
func (k *keyer) read(i, n int) {
	r := k.w.shards[i].docs[n]
	if r == (read{}) {
		return
	}
	pods := byte(0)
	for p, q := range k.as.pods {
		pods |= r.entries >> p & 1 << q
	}
	k.put(100+byte(i), pods, k.level(r.hw))
}

// level is how many of the levels a resourceVersion has reached.
func (k *keyer) level(rv uint8) byte { return byte(bits.OnesCount64(k.levels & (2<<rv - 1))) }

// newest is the bit of a sight that marks the pod's last version.
const newest = 8

func (k *keyer) podView(s podView, of *pod) byte {
	return k.node(s.node) | bit(s.gone)<<2 | bit(s.rv == of.rv)*newest
}

// node is a node by its new name, 0 for none.
func (k *keyer) node(n uint8) byte {
	if n == 0 {
		return 0
	}
	return byte(1 + k.as.nodes[n-1])
}

// nodes are some nodes (bits) by their new names.
func (k *keyer) nodes(mask uint8) (out byte) {
	for n, to := range k.as.nodes {
		out |= mask >> n & 1 << to
	}
	return out
}

func bit(b bool) byte {
	if b {
		return 1
	}
	return 0
}
