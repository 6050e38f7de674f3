package placement

import (
	"maps"
	"reflect"

	"github.com/berth-scheduler/berth/pkg/state"
)

// imageTable counts on how many nodes each image is.
type imageTable struct {
	byName map[string]*image
	// of are the images of each slot, as counted.
	of []map[string]int64
}

type image struct {
	holders int
	// size in bytes; mixed when nodes do not agree, and then it is looked up.
	size  int64
	mixed bool
}

// replace counts the images of a slot anew. Node objects change more often than the images
// on them, and those that did not are mostly the same map.
func (t *imageTable) replace(slot int, now map[string]int64) {
	was := t.of[slot]
	if sameMap(was, now) || maps.Equal(was, now) {
		t.of[slot] = now
		return
	}
	for name := range was {
		i := t.byName[name]
		if i.holders--; i.holders == 0 {
			delete(t.byName, name)
		}
	}
	for name, size := range now {
		i, ok := t.byName[name]
		if !ok {
			i = &image{size: size}
			t.byName[name] = i
		}
		i.holders++
		i.mixed = i.mixed || i.size != size
	}
	t.of[slot] = now
}

func sameMap(a, b map[string]int64) bool {
	return len(a) == len(b) && reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
}

// worth is what an image adds to the score of a node that has it; see imageScorer.
func (t *imageTable) worth(name string, nodes int, infos []*state.NodeInfo) int64 {
	i, ok := t.byName[name]
	if !ok {
		return 0
	}
	size := i.size
	if i.mixed {
		size = sizeOnFirst(name, infos)
	}
	return imageWorth(size, int64(i.holders), nodes)
}

// sizeOnFirst is the size on the first node, by name, that has the image.
func sizeOnFirst(image string, infos []*state.NodeInfo) int64 {
	var (
		first string
		size  int64
	)
	for _, n := range infos {
		if n == nil {
			continue
		}
		if bytes, ok := n.Node.Images[image]; ok && (first == "" || n.Node.Name < first) {
			first, size = n.Node.Name, bytes
		}
	}
	return size
}
