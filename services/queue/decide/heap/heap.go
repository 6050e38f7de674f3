package heap

import "container/heap"

// Heap is a binary heap. An item stores its own position in the heap, in a place that the heap is given access to.
type Heap[T any] struct{ items items[T] }

// New returns an empty heap, ordered by less. index returns where an item stores its position.
func New[T any](less func(a, b T) bool, index func(item T) *int32) *Heap[T] {
	return &Heap[T]{items: items[T]{less: less, index: index}}
}

// Len returns the number of items.
func (h *Heap[T]) Len() int { return len(h.items.all) }

// Put adds an item.
func (h *Heap[T]) Put(item T) { heap.Push(&h.items, item) }

// Drop removes an item, which must be in the heap.
func (h *Heap[T]) Drop(item T) { heap.Remove(&h.items, int(*h.items.index(item))) }

// Fix restores the order after the key of an item has changed.
func (h *Heap[T]) Fix(item T) { heap.Fix(&h.items, int(*h.items.index(item))) }

// First returns the least item. It returns the zero value if the heap is empty.
func (h *Heap[T]) First() T {
	if len(h.items.all) == 0 {
		var none T
		return none
	}
	return h.items.all[0]
}

// All returns the items in the order in which the heap stores them. The slice belongs to the heap.
func (h *Heap[T]) All() []T { return h.items.all }

// Less reports whether one item comes before another.
func (h *Heap[T]) Less(a, b T) bool { return h.items.less(a, b) }

// items implements heap.Interface.
type items[T any] struct {
	less  func(a, b T) bool
	index func(item T) *int32
	all   []T
}

func (s *items[T]) Len() int           { return len(s.all) }
func (s *items[T]) Less(i, j int) bool { return s.less(s.all[i], s.all[j]) }

func (s *items[T]) Swap(i, j int) {
	s.all[i], s.all[j] = s.all[j], s.all[i]
	*s.index(s.all[i]), *s.index(s.all[j]) = int32(i), int32(j)
}

func (s *items[T]) Push(x any) {
	item := x.(T)
	*s.index(item) = int32(len(s.all))
	s.all = append(s.all, item)
}

func (s *items[T]) Pop() any {
	var none T
	last := len(s.all) - 1
	item := s.all[last]
	s.all[last] = none
	s.all = s.all[:last]
	return item
}
