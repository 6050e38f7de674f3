package sink

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// patch merges a condition, or a part of one, into the status of a pod, and annotations into the pod, as
// kube-apiserver does.
func (s *Server) patch(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, mostBody))
	if err != nil {
		s.fail(w, http.StatusBadRequest, err.Error())
		return
	}
	if kind := r.Header.Get("Content-Type"); kind != string(types.StrategicMergePatchType) {
		s.fail(w, http.StatusUnsupportedMediaType, fmt.Sprintf("%s: want %s", kind, types.StrategicMergePatchType))
		return
	}
	key := types.NamespacedName{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
	s.mu.Lock()
	defer s.mu.Unlock()
	old, known := s.mu.pods[key]
	if !known {
		s.fail(w, http.StatusNotFound, fmt.Sprintf("pods %q not found", key.Name))
		return
	}
	merged, err := merge(old, body)
	if err != nil {
		s.fail(w, http.StatusBadRequest, err.Error())
		return
	}
	pod := *old
	pod.Status, pod.Annotations = merged.Status, merged.Annotations
	s.stamp(&pod)
	frame, err := s.encode.frame("MODIFIED", &pod)
	if err != nil {
		s.fail(w, http.StatusInternalServerError, err.Error())
		return
	}
	s.mu.pods[key] = &pod
	s.pods.add(s.mu.version, frame)
	s.answer(w, http.StatusOK, &pod)
}

func merge(pod *corev1.Pod, patch []byte) (merged *corev1.Pod, err error) {
	raw, err := json.Marshal(pod)
	if err != nil {
		return nil, err
	}
	if raw, err = strategicpatch.StrategicMergePatch(raw, patch, corev1.Pod{}); err != nil {
		return nil, err
	}
	return merged, json.Unmarshal(raw, &merged)
}
