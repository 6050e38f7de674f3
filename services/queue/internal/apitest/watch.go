package apitest

import (
	"net/http"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// frame is one event as a watch sends it.
type frame struct {
	Type   watch.EventType `json:"type"`
	Object any             `json:"object"`
}

func (s *Server) watch(w http.ResponseWriter, r *http.Request, resource string) {
	query := r.URL.Query()
	initial := query.Get("sendInitialEvents") == "true"
	from, _ := strconv.ParseUint(query.Get("resourceVersion"), 10, 64)
	s.mu.Lock()
	generation := s.mu.watches
	var frames []frame
	switch {
	case initial:
		for _, o := range s.current(resource) {
			frames = append(frames, frame{watch.Added, o})
		}
		from = s.mu.version
		frames = append(frames, frame{watch.Bookmark, bookmark(resource, from, true)})
	case from < s.mu.compact:
		frames = append(frames, frame{watch.Error, status(http.StatusGone, metav1.StatusReasonExpired)})
	}
	s.mu.Unlock()
	for _, f := range frames {
		write(w, f)
		if f.Type == watch.Error {
			return
		}
	}
	s.stream(w, r, resource, from, generation)
}

// stream sends the events after from until the watch ends.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, resource string, from uint64, generation int) {
	flush := w.(http.Flusher).Flush
	for {
		flush()
		s.mu.Lock()
		changed, over := s.mu.changed, s.mu.watches != generation
		var fresh []event
		for _, e := range s.mu.events {
			if e.version > from && (e.kind == watch.Bookmark || e.resource == resource) {
				fresh = append(fresh, e)
			}
		}
		s.mu.Unlock()
		for _, e := range fresh {
			from = e.version
			if e.kind == watch.Bookmark {
				write(w, frame{watch.Bookmark, bookmark(resource, e.version, false)})
				continue
			}
			write(w, frame{e.kind, e.object})
		}
		if over {
			return
		}
		if len(fresh) > 0 {
			continue
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

// empty returns an empty object of the resource's kind.
func empty(resource string) object {
	switch resource {
	case "pods":
		return &corev1.Pod{}
	case "nodes":
		return &corev1.Node{}
	case "namespaces":
		return &corev1.Namespace{}
	case "services":
		return &corev1.Service{}
	case "replicationcontrollers":
		return &corev1.ReplicationController{}
	case "replicasets":
		return &appsv1.ReplicaSet{}
	case "statefulsets":
		return &appsv1.StatefulSet{}
	case "poddisruptionbudgets":
		return &policyv1.PodDisruptionBudget{}
	case "persistentvolumes":
		return &corev1.PersistentVolume{}
	case "persistentvolumeclaims":
		return &corev1.PersistentVolumeClaim{}
	case "storageclasses":
		return &storagev1.StorageClass{}
	case "csinodes":
		return &storagev1.CSINode{}
	case "csidrivers":
		return &storagev1.CSIDriver{}
	case "csistoragecapacities":
		return &storagev1.CSIStorageCapacity{}
	case taintRules:
		return &resourcev1beta2.DeviceTaintRule{}
	default:
		return &schedulingv1.PriorityClass{}
	}
}

// bookmark returns an empty object of the resource's kind at a resourceVersion.
func bookmark(resource string, version uint64, initialEnd bool) object {
	o := empty(resource)
	resourceOf(o)
	o.SetResourceVersion(strconv.FormatUint(version, 10))
	if initialEnd {
		o.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	}
	return o
}
