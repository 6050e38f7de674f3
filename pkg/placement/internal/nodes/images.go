package nodes

import (
	"strings"

	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// ImageLocality prefers nodes that already have the pod's images, large and widespread ones most. Source:
// plugins/imagelocality.
type ImageLocality struct{}

// The range of image sizes that scores cover, in bytes; the upper end is per container. Below the lower end,
// pulling an image takes too little time to matter. Source: image_locality.go minThreshold,
// maxContainerThreshold.
const (
	minImageBytes int64 = 23 << 20
	maxImageBytes int64 = 1000 << 20
)

// Name implements Plugin.
func (ImageLocality) Name() string { return names.ImageLocality }

// Events implements Plugin.
func (ImageLocality) Events() []rule.Event { return nil }

// Hint implements Plugin.
func (ImageLocality) Hint(*state.Pod, rule.Change) bool { return false }

// Compile implements Plugin. It scores for every pod, because every container has an image.
func (ImageLocality) Compile(pod *state.Pod, _ rule.Objects) (rule.Compiled, error) {
	spec := &pod.Template.Spec
	s := ImageScorer{containers: int64(len(spec.InitContainers) + len(spec.Containers))}
	for _, c := range spec.InitContainers {
		s.Images = append(s.Images, imageName(c.Image))
	}
	for _, c := range spec.Containers {
		s.Images = append(s.Images, imageName(c.Image))
	}
	for _, v := range spec.Volumes {
		if v.Image != nil {
			s.Images = append(s.Images, imageName(v.Image.Reference))
		}
	}
	return rule.Compiled{Scorer: s}, nil
}

// imageName adds the default tag, latest, to a name without one.
func imageName(name string) string {
	if strings.LastIndex(name, ":") <= strings.LastIndex(name, "/") {
		name += ":latest"
	}
	return name
}

// ImageScorer scores by the images that a node has. worth is per image, 0 for one that no node has; nil before
// Survey. Example: an image of 500 MiB that 20 of 100 nodes have is worth 100 MiB on each of these.
type ImageScorer struct {
	containers int64
	Images     []string
	worth      []int64
}

// Survey computes what each image is worth: its size times the share of nodes that have it, so that a rare image
// does not attract every pod to the one node that has it. The size is that on the first node that has the image, as
// in upstream's cache.
func (s ImageScorer) Survey(all, _ []*state.NodeInfo) rule.Scorer {
	s.worth = make([]int64, len(s.Images))
	for i, image := range s.Images {
		var size, holders int64
		for _, n := range all {
			bytes, ok := n.Node.Images.Bytes(image)
			if ok && holders == 0 {
				size = bytes
			}
			if ok {
				holders++
			}
		}
		s.worth[i] = ImageWorth(size, holders, len(all))
	}
	return s
}

// ImageWorth returns the size of an image times the share of nodes that have it.
func ImageWorth(size, holders int64, nodes int) int64 {
	return int64(float64(size) * (float64(holders) / float64(nodes)))
}

// Score implements Scorer.
func (s ImageScorer) Score(n *state.NodeInfo) int64 {
	var sum int64
	if n.Node.Images != nil {
		for i, worth := range s.worth {
			if worth == 0 {
				continue
			}
			if _, ok := n.Node.Images.Bytes(s.Images[i]); ok {
				sum += worth
			}
		}
	}
	return s.Scale(sum)
}

// Scale scales the worth of a node's images to MinScore..MaxScore: 0 up to 23 MiB, 100 from 1000 MiB per
// container.
func (s *ImageScorer) Scale(sum int64) int64 {
	top := maxImageBytes * s.containers
	sum = min(max(sum, minImageBytes), top)
	return rule.MaxScore * (sum - minImageBytes) / (top - minImageBytes)
}
