package columns

// Marks restrict how a node may be used, in addition to its columns.
const (
	// MarkUsable: the node may receive pods now. Every node is usable until the caller says otherwise.
	MarkUsable uint8 = 1 << iota
	// MarkHome: the node is one of the home nodes that Query.Home refers to.
	MarkHome
)

// markColumn holds the marks of each slot.
type markColumn struct {
	Of []uint8
	// Usable and Home count the nodes that are usable, and those that are usable and home.
	Usable, Home int
}

// Set reports whether anything changed.
func (m *markColumn) Set(slot int, mark uint8, on bool) bool {
	before := m.Of[slot]
	m.count(before, -1)
	after := before &^ mark
	if on {
		after |= mark
	}
	m.Of[slot] = after
	m.count(after, 1)
	return before != after
}

func (m *markColumn) count(marks uint8, by int) {
	if marks&MarkUsable != 0 {
		m.Usable += by
		if marks&MarkHome != 0 {
			m.Home += by
		}
	}
}
