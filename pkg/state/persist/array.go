package persist

import "slices"

// Array is a persistent array that grows at its end. The zero value is empty. Reading an element takes four steps at
// any size; the first change of an element in an edit copies three nodes of fanOut elements, and a list with one entry
// for fanOut³ elements.
//
// A tree of a fixed depth with a list on top needs no case for its height, and its nodes have concrete types.
type Array[T any] struct {
	top []*upper[T]
	// edit is the edit that made top.
	edit Edit
}

// fanOut is how many children a node has. Wider nodes would make the tree flatter, and each change copy more.
const (
	fanBits = 5
	fanOut  = 1 << fanBits
	fanMask = fanOut - 1
)

type (
	upper[T any] struct {
		edit Edit
		kids [fanOut]*lower[T]
	}
	lower[T any] struct {
		edit Edit
		kids [fanOut]*leaf[T]
	}
	leaf[T any] struct {
		edit   Edit
		values [fanOut]T
	}
)

// At returns the element with a number; the zero value for one that has not been set.
func (a *Array[T]) At(i uint32) (value T) {
	at := int(i >> (3 * fanBits))
	if at >= len(a.top) {
		return value
	}
	l := a.top[at].kids[i>>(2*fanBits)&fanMask]
	if l == nil {
		return value
	}
	f := l.kids[i>>fanBits&fanMask]
	if f == nil {
		return value
	}
	return f.values[i&fanMask]
}

// Set sets the element with a number, as part of an edit. Numbers should be dense: the array is as long as the largest.
func (a *Array[T]) Set(i uint32, value T, edit Edit) {
	at := int(i >> (3 * fanBits))
	if a.edit != edit {
		a.top, a.edit = slices.Clone(a.top), edit
	}
	for len(a.top) <= at {
		a.top = append(a.top, &upper[T]{edit: edit})
	}
	u := a.top[at]
	if u.edit != edit {
		u = &upper[T]{edit: edit, kids: u.kids}
		a.top[at] = u
	}
	u.set(i, value, edit)
}

// set is Array.Set below a node of this edit.
func (u *upper[T]) set(i uint32, value T, edit Edit) {
	at := &u.kids[i>>(2*fanBits)&fanMask]
	switch l := *at; {
	case l == nil:
		*at = &lower[T]{edit: edit}
	case l.edit != edit:
		*at = &lower[T]{edit: edit, kids: l.kids}
	}
	(*at).set(i, value, edit)
}

// set is Array.Set below a node of this edit.
func (l *lower[T]) set(i uint32, value T, edit Edit) {
	at := &l.kids[i>>fanBits&fanMask]
	switch f := *at; {
	case f == nil:
		*at = &leaf[T]{edit: edit}
	case f.edit != edit:
		*at = &leaf[T]{edit: edit, values: f.values}
	}
	(*at).values[i&fanMask] = value
}
