package sink

import (
	"bytes"
	"fmt"
	"net/http"
	"path"
	"sort"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// codec writes protobuf as the API server does.
type codec struct{ info runtime.SerializerInfo }

func newCodec() (codec, error) {
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	if !ok || info.StreamSerializer == nil {
		return codec{}, fmt.Errorf("client-go has no codec for %s", runtime.ContentTypeProtobuf)
	}
	return codec{info}, nil
}

func (c codec) object(o runtime.Object) ([]byte, error) {
	var out bytes.Buffer
	err := c.info.Serializer.Encode(o, &out)
	return out.Bytes(), err
}

// frame is one event of a watch, length first.
func (c codec) frame(kind string, o runtime.Object) ([]byte, error) {
	raw, err := c.object(o)
	if err != nil {
		return nil, err
	}
	var event, out bytes.Buffer
	err = c.info.StreamSerializer.Encode(&metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Raw: raw}}, &event)
	if err != nil {
		return nil, err
	}
	_, err = c.info.StreamSerializer.Framer.NewFrameWriter(&out).Write(event.Bytes())
	return out.Bytes(), err
}

// history is all events of one resource, in order.
type history struct {
	mu struct {
		sync.Mutex
		versions []uint64
		frames   [][]byte
		// changed closes with the next event.
		changed chan struct{}
	}
}

func newHistory() *history {
	h := &history{}
	h.mu.changed = make(chan struct{})
	return h
}

func (h *history) add(version uint64, frame []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.versions = append(h.mu.versions, version)
	h.mu.frames = append(h.mu.frames, frame)
	close(h.mu.changed)
	h.mu.changed = make(chan struct{})
}

// after returns the frames from a position on, the position behind them, and what closes when there
// are more.
func (h *history) after(at int) (frames [][]byte, next int, more <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.mu.frames[at:], len(h.mu.frames), h.mu.changed
}

// position is where the first event later than a version is or will be.
func (h *history) position(version uint64) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return sort.Search(len(h.mu.versions), func(i int) bool { return h.mu.versions[i] > version })
}

// read lists or watches.
func (s *Server) read(w http.ResponseWriter, r *http.Request, h *history, list func() runtime.Object) {
	query := r.URL.Query()
	switch {
	case query.Get("watch") == "":
		s.answer(w, http.StatusOK, list())
		return
	case query.Get("sendInitialEvents") != "":
		// Clients fall back to a list.
		s.fail(w, http.StatusUnprocessableEntity, "sendInitialEvents: not served here")
		return
	}
	from, err := strconv.ParseUint(query.Get("resourceVersion"), 10, 64)
	if err != nil {
		s.fail(w, http.StatusBadRequest, "resourceVersion: "+err.Error())
		return
	}
	s.watch(w, r, h, from)
}

// watch sends the events after a version until the client disconnects.
func (s *Server) watch(w http.ResponseWriter, r *http.Request, h *history, from uint64) {
	w.Header().Set("Content-Type", runtime.ContentTypeProtobuf+";stream=watch")
	flush := http.NewResponseController(w)
	at := h.position(from)
	for {
		frames, next, more := h.after(at)
		for _, f := range frames {
			if _, err := w.Write(f); err != nil {
				return
			}
		}
		if at = next; len(frames) > 0 || from > 0 {
			from = 0
			if flush.Flush() != nil {
				return
			}
		}
		select {
		case <-more:
		case <-r.Context().Done():
			return
		}
	}
}

// listsByPath finds the kind of a list, with its group and version, for every path at which client-go
// would ask for it.
var listsByPath = sync.OnceValue(func() map[string]schema.GroupVersionKind {
	paths := map[string]schema.GroupVersionKind{}
	for kind := range scheme.Scheme.AllKnownTypes() {
		list := kind.GroupVersion().WithKind(kind.Kind + "List")
		if !scheme.Scheme.Recognizes(list) {
			continue
		}
		plural, _ := meta.UnsafeGuessKindToResource(kind)
		root := "/apis/" + kind.Group
		if kind.Group == "" {
			root = "/api"
		}
		paths[root+"/"+kind.Version+"/"+plural.Resource] = list
	}
	return paths
})

// resources are the kinds of a group and version that can be listed: all that client-go knows. Others are not found, as
// with an API server that does not serve them.
func (s *Server) resources(w http.ResponseWriter, r *http.Request) {
	group := schema.GroupVersion{Group: r.PathValue("group"), Version: r.PathValue("version")}
	list := &metav1.APIResourceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"},
		GroupVersion: group.String()}
	for where, kind := range listsByPath() {
		if kind.GroupVersion() == group {
			list.APIResources = append(list.APIResources, metav1.APIResource{
				Name: path.Base(where), Kind: strings.TrimSuffix(kind.Kind, "List"), Verbs: metav1.Verbs{"list", "watch"}})
		}
	}
	if len(list.APIResources) == 0 {
		s.fail(w, http.StatusNotFound, "not served here: "+group.String())
		return
	}
	s.answer(w, http.StatusOK, list)
}

// nothing is the empty list of any other kind, whose watch stays silent.
func (s *Server) nothing(w http.ResponseWriter, r *http.Request) {
	list, known := listsByPath()[r.URL.Path]
	empty, err := scheme.Scheme.New(list)
	if !known || err != nil {
		s.stranger(w, r)
		return
	}
	empty.GetObjectKind().SetGroupVersionKind(list)
	if meta, ok := empty.(metav1.ListInterface); ok {
		meta.SetResourceVersion("1")
	}
	s.read(w, r, newHistory(), func() runtime.Object { return empty })
}

func (s *Server) listPods() runtime.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}}
	list.ResourceVersion = strconv.FormatUint(s.mu.version, 10)
	for _, p := range s.mu.pods {
		list.Items = append(list.Items, *p)
	}
	return list
}

func (s *Server) listNodes() runtime.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := &corev1.NodeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}}
	list.ResourceVersion = strconv.FormatUint(s.mu.version, 10)
	for _, n := range s.mu.nodes {
		list.Items = append(list.Items, *n)
	}
	return list
}
