package columns

// NoDomain is the domain of a node that does not have the key.
const NoDomain int32 = -1

// axis is one topology key, with the domain of every slot.
type axis struct {
	key string
	// Of is the domain of each slot, NoDomain for a node without the label; IDs maps the values of the label to
	// numbers.
	Of  []int32
	IDs map[string]int32
	// members counts the nodes of each domain; crowded is the number of domains with more than one node. It is 0
	// for the hostname label, and then a domain is the same as a node.
	members []int32
	crowded int
}

// set updates the domain of a slot; nil labels remove it.
func (a *axis) set(slot int, nodeLabels map[string]string) {
	now := NoDomain
	if value, ok := nodeLabels[a.key]; ok {
		now = a.Domain(value)
	}
	if was := a.Of[slot]; was != now {
		a.count(was, -1)
		a.count(now, 1)
		a.Of[slot] = now
	}
}

// count adds nodes to a domain or, if by is negative, removes them, and keeps crowded right.
func (a *axis) count(domain, by int32) {
	if domain == NoDomain {
		return
	}
	before := a.members[domain]
	a.members[domain] += by
	if before == 1 && by > 0 {
		a.crowded++
	}
	if before == 2 && by < 0 {
		a.crowded--
	}
}

// Domain returns the number of a value of the key, which is assigned at the first call.
func (a *axis) Domain(value string) int32 {
	id, ok := a.IDs[value]
	if !ok {
		id = int32(len(a.IDs))
		a.IDs[value] = id
		a.members = append(a.members, 0)
	}
	return id
}
