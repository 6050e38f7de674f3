package gang

import (
	"bytes"
	"slices"
)

// renaming gives pods and nodes new names; podAt and nodeAt are the way back.
type renaming struct{ pods, nodes, podAt, nodeAt []int }

func newModel(s scenario, ablated ...string) *model {
	m := &model{scenario: s, ablated: ablated}
	for _, nodes := range permutations(len(s.capacity)) {
		for _, pods := range permutations(len(s.pods)) {
			if s.alike(pods, nodes) {
				m.symmetries = append(m.symmetries, renaming{pods, nodes, inverse(pods), inverse(nodes)})
			}
		}
	}
	return m
}

// alike reports whether every pod and every node gets the name of one that differs in its name only.
func (s scenario) alike(pods, nodes []int) bool {
	for n, to := range nodes {
		if s.capacity[n] != s.capacity[to] {
			return false
		}
	}
	units := map[uint8]uint8{0: 0}
	for p, to := range pods {
		a, b := s.pods[p], s.pods[to]
		if a.runs != 0 {
			a.runs = uint8(nodes[a.runs-1] + 1)
		}
		unit, seen := units[a.unit]
		if seen && unit != b.unit || a.foreign && nodes[0] != 0 {
			return false
		}
		units[a.unit] = b.unit
		a.name, a.unit, b.name, b.unit = 0, 0, 0, 0
		if a != b {
			return false
		}
	}
	return true
}

func inverse(of []int) []int {
	back := make([]int, len(of))
	for from, to := range of {
		back[to] = from
	}
	return back
}

func permutations(n int) [][]int {
	if n == 0 {
		return [][]int{nil}
	}
	var out [][]int
	for _, shorter := range permutations(n - 1) {
		for at := range n {
			out = append(out, slices.Insert(slices.Clone(shorter), at, n-1))
		}
	}
	return out
}

// key distinguishes states. Pods that differ in name only are alike, and so are nodes: of all ways to name them the key
// is the first in order. Of a revision that a shard has read only matters whether it is the present one.
func (m *model) key(w *world, buf []byte) []byte {
	for i, as := range m.symmetries {
		k := keyer{m: m, w: w, as: as, buf: m.scratch[:0]}
		k.write()
		m.scratch = k.buf
		if i == 0 || bytes.Compare(m.scratch, buf) < 0 {
			buf = append(buf[:0], m.scratch...)
		}
	}
	return buf
}

// keyer writes the key of a state under one renaming.
type keyer struct {
	m   *model
	w   *world
	as  renaming
	buf []byte
}

func (k *keyer) put(b ...byte) { k.buf = append(k.buf, b...) }

func (k *keyer) write() {
	l := k.w.left
	k.put(byte(k.w.violation), l.timeouts<<4|l.takeovers<<2|l.answers, l.fences<<2|l.drops)
	for g := range k.m.gangs {
		k.put(l.attempts[g]<<4 | k.w.made[g]<<1 | bit(k.w.parked[g]))
		k.record(k.w.now.records[g])
		k.put(k.w.now.epochs[g])
	}
	for _, p := range k.as.podAt {
		pod := &k.w.pods[p]
		k.put(k.node(pod.node) | bit(pod.gone)<<2 | k.nodes(pod.asked)<<3 | pod.version<<5)
		for _, n := range k.as.nodeAt {
			if pod.pledged[n] != 0 {
				k.put(100 + pod.pledged[n])
			}
		}
	}
	for _, n := range k.as.nodeAt {
		k.doc(&k.w.now.docs[n])
	}
	for i := range k.w.shards {
		k.picture(&k.w.shards[i], nil)
		if k.w.sent[i] {
			k.picture(&k.w.coming[i], &k.w.shards[i])
		}
	}
}

// picture adds a shard's view to the key. Without before, it adds the view the shard has, where that differs from the
// ledger. With before, it adds the view the shard will have next, where that is newer than before.
func (k *keyer) picture(pic, before *picture) {
	k.put(k.nodes(pic.ahead) | bit(before != nil)<<7)
	for _, n := range k.as.nodeAt {
		switch now := pic.docs[n].revision; {
		case before != nil && now < before.docs[n].revision:
			k.put(2)
		case now == k.w.now.docs[n].revision:
			k.put(1)
		default:
			k.put(0)
			k.doc(&pic.docs[n])
		}
	}
	for g := range k.m.gangs {
		epoch := pic.epochs[g] << 2
		switch now := pic.records[g].revision; {
		case before != nil && now < before.records[g].revision:
			k.put(2 | epoch)
		case now == k.w.now.records[g].revision:
			k.put(1 | epoch)
		default:
			k.put(epoch)
			k.record(pic.records[g])
		}
	}
}

func (k *keyer) record(r record) { k.put(byte(r.state) | r.attempt<<3) }

func (k *keyer) doc(d *doc) {
	for _, p := range k.as.podAt {
		e := d.entries[p]
		by := byte(e.by)
		if e.by > maxGangs {
			by = byte(1 + maxGangs + k.as.pods[int(e.by)-1-maxGangs])
		}
		k.put(byte(e.state)|e.attempt<<3|e.version<<6, by)
	}
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
