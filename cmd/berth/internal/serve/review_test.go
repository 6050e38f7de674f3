package serve

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"
)

// reviewer is an API server that knows two tokens, and counts what it is asked.
type reviewer struct {
	*httptest.Server
	mu struct {
		sync.Mutex
		asked map[string]int
		down  bool
	}
}

// users are the users of the tokens; rights are what each may request.
var (
	users = map[string]string{
		"token-of-prometheus": "prometheus-k8s", "token-of-nobody": "nobody", "token-of-admin": "admin",
	}
	rights = map[string][]string{
		"prometheus-k8s": {"get /metrics", "get /metrics/slis"},
		"admin":          {"get /configz", "get /flagz", "get /statusz", "put " + LevelPath, "get /queue"},
	}
)

func newReviewer(t *testing.T) *reviewer {
	t.Helper()
	r := &reviewer{}
	r.mu.asked = map[string]int{}
	r.Server = httptest.NewServer(http.HandlerFunc(r.answer))
	t.Cleanup(r.Close)
	return r
}

func (r *reviewer) answer(w http.ResponseWriter, req *http.Request) {
	kind := req.URL.Path[strings.LastIndexByte(req.URL.Path, '/')+1:]
	r.mu.Lock()
	r.mu.asked[kind]++
	down := r.mu.down
	r.mu.Unlock()
	if down {
		http.Error(w, "down", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	switch kind {
	case "tokenreviews":
		var review authenticationv1.TokenReview
		_ = json.NewDecoder(req.Body).Decode(&review)
		review.APIVersion, review.Kind = "authentication.k8s.io/v1", "TokenReview"
		name, ok := users[review.Spec.Token]
		review.Status = authenticationv1.TokenReviewStatus{Authenticated: ok, User: authenticationv1.UserInfo{Username: name}}
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(review)
	case "subjectaccessreviews":
		var review authorizationv1.SubjectAccessReview
		_ = json.NewDecoder(req.Body).Decode(&review)
		review.APIVersion, review.Kind = "authorization.k8s.io/v1", "SubjectAccessReview"
		about := review.Spec.NonResourceAttributes
		for _, right := range rights[review.Spec.User] {
			review.Status.Allowed = review.Status.Allowed || about != nil && right == about.Verb+" "+about.Path
		}
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(review)
	default:
		http.NotFound(w, req)
	}
}

func (r *reviewer) set(down bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.down = down
}

func (r *reviewer) times(kind string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.asked[kind]
}

// startReviewed serves like start, and lets an API server review tokens. With certified, it also accepts client
// certificates.
func startReviewed(t *testing.T, dir string, api *reviewer, certified bool) *Server {
	t.Helper()
	cfg := TLS{
		CertFile: filepath.Join(dir, "queue", "tls.crt"), KeyFile: filepath.Join(dir, "queue", "tls.key"), TokenReview: true,
	}
	if certified {
		cfg.ClientCAFile = filepath.Join(dir, "ca.crt")
		cfg.AllowedNames, cfg.AdminNames = []string{"prometheus"}, []string{administrator}
	}
	s, err := Listen(Config{Address: "127.0.0.1:0", TLS: cfg})
	if err != nil {
		t.Fatal(err)
	}
	// In protobuf, which is client-go's choice, the answers would not be readable here.
	readable := rest.ContentConfig{ContentType: "application/json"}
	if err := s.ReviewTokens(&rest.Config{Host: api.URL, ContentConfig: readable}); err != nil {
		t.Fatal(err)
	}
	run(t, s)
	return s
}

// call is a request with a bearer token, empty for none.
type call struct{ token, method, path string }

// send sends a request and returns the status.
func send(t *testing.T, c *http.Client, s *Server, r call) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), r.method, "https://"+s.Address()+r.path, strings.NewReader("info"))
	if err != nil {
		t.Fatal(err)
	}
	if r.token != "" {
		req.Header.Set("Authorization", "Bearer "+r.token)
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // only the status matters
	return resp.StatusCode
}

// TestTokensAreReviewed: what a token's user may request is the API server's decision, beside certificates or alone.
func TestTokensAreReviewed(t *testing.T) {
	dir, api := t.TempDir(), newReviewer(t)
	issue(t, dir)
	for _, certified := range []bool{true, false} {
		s := startReviewed(t, dir, api, certified)
		for _, c := range []struct {
			call
			want int
		}{
			{call{"", http.MethodGet, "/livez"}, 200},
			{call{"", http.MethodGet, "/metrics"}, 401},
			{call{"token-of-prometheus", http.MethodGet, "/metrics"}, 200},
			{call{"token-of-prometheus", http.MethodGet, "/metrics/slis"}, 200},
			{call{"token-of-prometheus", http.MethodGet, LevelPath}, 403},
			{call{"token-of-prometheus", http.MethodPut, LevelPath}, 403},
			{call{"token-of-nobody", http.MethodGet, "/metrics"}, 403},
			{call{"bad", http.MethodGet, "/metrics"}, 401},
			{call{"token-of-admin", http.MethodPut, LevelPath}, 200},
			{call{"token-of-admin", http.MethodGet, LevelPath}, 403}, // RBAC grants the verb put alone
		} {
			if got := send(t, client(t, dir, ""), s, c.call); got != c.want {
				t.Errorf("certificates %t: %s %s with %q: %d, want %d", certified, c.method, c.path, c.token, got, c.want)
			}
		}
	}
}

// TestCertificatesNeedNoAPIServer: they are verified here, also while the API server does not answer. A token is then
// refused, and so is one beside a certificate that may not make the request.
func TestCertificatesNeedNoAPIServer(t *testing.T) {
	dir, api := t.TempDir(), newReviewer(t)
	issue(t, dir)
	s := startReviewed(t, dir, api, true)
	api.set(true)
	for _, c := range []struct {
		member, token, path string
		want                int
	}{
		{"prometheus", "", "/metrics", 200},
		{"prometheus", "token-of-prometheus", "/metrics", 200},
		{administrator, "", LevelPath, 200},
		{"scheduler", "", "/metrics", 403},
		{"", "token-of-prometheus", "/metrics", 401},
		{"scheduler", "token-of-prometheus", "/metrics", 401},
	} {
		r := call{c.token, http.MethodGet, c.path}
		if got := send(t, client(t, dir, c.member), s, r); got != c.want {
			t.Errorf("%s as %q with %q: %d, want %d", c.path, c.member, c.token, got, c.want)
		}
	}
	if api.times("subjectaccessreviews") != 0 {
		t.Error("rights were reviewed of a token that was not")
	}
	api.set(false)
	scrape := call{"token-of-prometheus", http.MethodGet, "/metrics"}
	if got := send(t, client(t, dir, "scheduler"), s, scrape); got != 200 {
		t.Errorf("a token that may, beside a certificate that may not: %d", got)
	}
}

// TestReviewsAreKept: scrapes of one client cost the API server a review each in ten seconds, refused ones too; the API
// server may be away meanwhile.
func TestReviewsAreKept(t *testing.T) {
	dir, api := t.TempDir(), newReviewer(t)
	issue(t, dir)
	s := startReviewed(t, dir, api, false)
	c := client(t, dir, "")
	for _, token := range []string{"token-of-prometheus", "token-of-nobody", "bad"} {
		scrape := call{token, http.MethodGet, "/metrics"}
		want := send(t, c, s, scrape)
		api.set(true)
		for range 5 {
			if got := send(t, c, s, scrape); got != want {
				t.Errorf("%s: %d, was %d", token, got, want)
			}
		}
		api.set(false)
	}
	if tokens, rights := api.times("tokenreviews"), api.times("subjectaccessreviews"); tokens != 3 || rights != 2 {
		t.Errorf("%d tokens and %d rights were reviewed, want 3 and 2", tokens, rights)
	}
}

// TestAFloodOfTokens: tokens that are not known cost the API server reviewQPS reviews a second after the first
// reviewBurst, however many there are.
func TestAFloodOfTokens(t *testing.T) {
	dir, api := t.TempDir(), newReviewer(t)
	issue(t, dir)
	s := startReviewed(t, dir, api, false)
	c := client(t, dir, "")
	began := time.Now()
	const flood = reviewBurst + reviewQPS
	for i := range flood {
		if got := send(t, c, s, call{fmt.Sprintf("bad-%d", i), http.MethodGet, "/metrics"}); got != http.StatusUnauthorized {
			t.Errorf("a token that is not known: %d", got)
		}
	}
	most := reviewBurst + 1 + int(time.Since(began).Seconds()*reviewQPS)
	if got := api.times("tokenreviews"); got > most || got > flood {
		t.Errorf("%d reviews in %s of %d tokens, want at most %d", got, time.Since(began), flood, most)
	}
}

// TestRequestsWithTokensAreLimited: more than that many at once are refused without a review.
func TestRequestsWithTokensAreLimited(t *testing.T) {
	inside, leave := make(chan struct{}), make(chan struct{})
	h := limited(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		inside <- struct{}{}
		<-leave
	}))
	ask := func() int {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		return w.Code
	}
	done := make(chan int, maxReviewed)
	for range maxReviewed {
		go func() { done <- ask() }()
		<-inside
	}
	if got := ask(); got != http.StatusTooManyRequests {
		t.Errorf("one too many: %d", got)
	}
	close(leave)
	for range maxReviewed {
		if got := <-done; got != http.StatusOK {
			t.Errorf("one of the first: %d", got)
		}
	}
}

// TestATokenNeedsTLSAndAReviewer: a token must not travel in the clear, and without a reviewer it gives no access.
func TestATokenNeedsTLSAndAReviewer(t *testing.T) {
	_, err := Listen(Config{Address: "127.0.0.1:0", TLS: TLS{TokenReview: true}})
	if err == nil || !strings.Contains(fmt.Sprint(err), "--http-token-review: want --http-cert-file") {
		t.Errorf("without a certificate: %v", err)
	}
	dir := t.TempDir()
	issue(t, dir)
	s, err := Listen(Config{Address: "127.0.0.1:0", TLS: TLS{
		CertFile: filepath.Join(dir, "queue", "tls.crt"), KeyFile: filepath.Join(dir, "queue", "tls.key"), TokenReview: true,
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Run(t.Context()); err == nil {
		t.Error("it serves without anyone to review tokens")
	}
}
