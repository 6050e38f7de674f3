package state

import (
	"iter"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/state/intern"
)

// Images are the images on a node. Immutable; nodes of this process with the same images
// have the same pointer, and nil is none. All methods take nil.
type Images struct {
	list []*image
	// twice: some name is there more than once.
	twice bool
}

// image is one image. Many nodes hold the same one.
type image struct {
	names []string
	bytes int64
}

// The images of all nodes of this process, and the lists of them.
var (
	knownImages intern.Table[image]
	imageLists  intern.Table[Images]
)

// newImages keeps nothing of list.
func newImages(list []corev1.ContainerImage) *Images {
	if len(list) == 0 {
		return nil
	}
	return imageLists.Get(marshalled(&corev1.NodeStatus{Images: list}), func() *Images {
		images := &Images{list: make([]*image, len(list))}
		seen := map[string]struct{}{}
		for i := range list {
			images.list[i] = knownImages.Get(marshalled(&list[i]), func() *image {
				return &image{names: slices.Clone(list[i].Names), bytes: list[i].SizeBytes}
			})
			for _, name := range list[i].Names {
				_, again := seen[name]
				images.twice = images.twice || again
				seen[name] = struct{}{}
			}
		}
		return images
	})
}

// Bytes is the size of an image by any of its names; !ok when the node does not have it. Of
// a name that appears twice it is the first size, as in upstream's cache
// (pkg/scheduler/backend/cache addNodeImageStates).
func (i *Images) Bytes(name string) (bytes int64, ok bool) {
	if i == nil {
		return 0, false
	}
	for _, im := range i.list {
		if slices.Contains(im.names, name) {
			return im.bytes, true
		}
	}
	return 0, false
}

// All yields every name once, with the size that Bytes says.
func (i *Images) All() iter.Seq2[string, int64] {
	return func(yield func(string, int64) bool) {
		if i == nil {
			return
		}
		for n, im := range i.list {
			for m, name := range im.names {
				if i.twice && i.listedBefore(n, m) {
					continue
				}
				if !yield(name, im.bytes) {
					return
				}
			}
		}
	}
}

// listedBefore tells whether name m of image n is one of those before it, too.
func (i *Images) listedBefore(n, m int) bool {
	names := i.list[n].names
	return slices.Contains(names[:m], names[m]) ||
		slices.ContainsFunc(i.list[:n], func(im *image) bool { return slices.Contains(im.names, names[m]) })
}

// api is the list that the images were made of.
func (i *Images) api() []corev1.ContainerImage {
	if i == nil {
		return nil
	}
	list := make([]corev1.ContainerImage, len(i.list))
	for n, im := range i.list {
		list[n] = corev1.ContainerImage{Names: im.names, SizeBytes: im.bytes}
	}
	return list
}
