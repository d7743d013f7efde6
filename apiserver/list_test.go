package apiserver_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarnproject/tarn/apiserver"
)

func TestL01_ListWithoutVersionAtZeroAndNotOlderThan(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	first := fill(t, s, pod("a"))
	last := fill(t, s, pod("b"))
	for _, query := range []string{"", "?resourceVersion=0", "?resourceVersion=" + first, "?resourceVersion=" + first + "&resourceVersionMatch=NotOlderThan"} {
		a := get(t, s, pods+query)
		if !slices.Equal(a.names(), []string{"a", "b"}) || a.at("metadata", "resourceVersion") != last || a.at("kind") != "PodList" {
			t.Errorf("%s: %s", query, a.raw)
		}
	}
}

func TestL02_ALimitWithAVersionAndNoMatchIsExact(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	fill(t, s, pod("a"), pod("b"))
	then := relabel(t, s, "a", "old")
	relabel(t, s, "a", "new")
	fill(t, s, pod("c"))
	if err := s.Delete(pod("b")); err != nil {
		t.Fatal(err)
	}
	exact := get(t, s, pods+"?limit=10&resourceVersion="+then)
	if !slices.Equal(exact.names(), []string{"a", "b"}) || exact.at("metadata", "resourceVersion") != then || !strings.Contains(exact.raw, `"old"`) {
		t.Errorf("the exact list is %s", exact.raw)
	}
	if same := get(t, s, pods+"?resourceVersionMatch=Exact&resourceVersion="+then); same.raw != exact.raw {
		t.Errorf("match=Exact is %s, with a limit it was %s", same.raw, exact.raw)
	}
	fresh := get(t, s, pods+"?limit=10&resourceVersionMatch=NotOlderThan&resourceVersion="+then)
	if !slices.Equal(fresh.names(), []string{"a", "c"}) || fresh.at("metadata", "resourceVersion") != version(s) {
		t.Errorf("not older than is %s", fresh.raw)
	}
}

func TestL03_AnExactListBeforeTheHistoryGets410(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{History: 2})
	then := fill(t, s, pod("a"))
	fill(t, s, pod("b"), pod("c"), pod("d"))
	get(t, s, pods+"?resourceVersionMatch=Exact&resourceVersion="+then).refused(t, http.StatusGone, "Expired", "The resourceVersion for the provided list is too old.")
	if a := get(t, s, pods+"?resourceVersion="+then); len(a.names()) != 4 {
		t.Errorf("not older than an old version is always possible, but got %s", a.raw)
	}
}

func TestL04_TheLimitIsIgnoredAtZero(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	fill(t, s, pod("a"), pod("b"), pod("c"))
	if a := get(t, s, pods+"?limit=1&resourceVersion=0"); len(a.names()) != 3 || a.at("metadata", "continue") != "" {
		t.Errorf("got %s", a.raw)
	}
}

func TestL05_PagesStayAtTheVersionOfTheFirst(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	then := fill(t, s, pod("a"), pod("b"), pod("c"), pod("d"), pod("e"))
	var names []string
	a := get(t, s, pods+"?limit=2")
	if a.at("metadata", "remainingItemCount") != "3" {
		t.Errorf("remaining: %s", a.raw)
	}
	for {
		names = append(names, a.names()...)
		if got := a.at("metadata", "resourceVersion"); got != then {
			t.Errorf("a page is at %s, want %s", got, then)
		}
		token := a.at("metadata", "continue")
		if token == "" {
			break
		}
		// Later pages must not see these changes.
		relabel(t, s, "e", version(s))
		if err := s.Delete(pod("d")); err == nil {
			fill(t, s, pod("bb"))
		}
		a = get(t, s, pods+"?limit=2&continue="+token)
	}
	if !slices.Equal(names, []string{"a", "b", "c", "d", "e"}) {
		t.Errorf("got %v", names)
	}
	token := get(t, s, pods+"?limit=2").at("metadata", "continue")
	get(t, s, pods+"?resourceVersion=5&continue="+token).refused(t, http.StatusBadRequest, "BadRequest", "not allowed when using continue")
	get(t, s, pods+"?continue=nonsense").refused(t, http.StatusBadRequest, "BadRequest", "continue key is not valid")
}

func TestL06_AnExpiredContinueHasATokenForTheRemainder(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	fill(t, s, pod("a"), pod("b"), pod("c"))
	token := get(t, s, pods+"?limit=1").at("metadata", "continue")
	fill(t, s, pod("d"))
	s.Compact(0)
	gone := get(t, s, pods+"?limit=1&continue="+token)
	gone.refused(t, http.StatusGone, "Expired", "inconsistent")
	rest := get(t, s, pods+"?continue="+gone.at("metadata", "continue"))
	if !slices.Equal(rest.names(), []string{"b", "c", "d"}) || rest.at("metadata", "resourceVersion") != version(s) {
		t.Errorf("the remainder is %s", rest.raw)
	}
}

func TestL07_APageMayBeEmptyAndHaveAContinueToken(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	fill(t, s, pod("a"), pod("b"))
	must(s.Inject(apiserver.Fault{Kind: apiserver.EmptyPage, Times: 1}))
	empty := get(t, s, pods+"?limit=5")
	if len(empty.names()) != 0 || !strings.Contains(empty.raw, `"items":[]`) || empty.at("metadata", "continue") == "" {
		t.Fatalf("got %s", empty.raw)
	}
	if rest := get(t, s, pods+"?limit=5&continue="+empty.at("metadata", "continue")); len(rest.names()) != 2 {
		t.Errorf("the rest is %s", rest.raw)
	}
}

func TestL08_MetadataComesFirstForTypedAndLastForCustomLists(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	if err := s.Define(apiserver.Definition{Resource: lakes}); err != nil {
		t.Fatal(err)
	}
	fill(t, s, pod("a"), lake("blue"))
	typed, custom := get(t, s, pods).raw, get(t, s, "/apis/example.com/v1/lakes").raw
	if strings.Index(typed, `"metadata":{"resourceVersion"`) > strings.Index(typed, `"items"`) {
		t.Errorf("typed: %s", typed)
	}
	if !strings.Contains(custom, `],"kind":"LakeList","metadata":{`) {
		t.Errorf("custom: %s", custom)
	}
}

func TestL10_ATruncatedListIsAnError(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		s := apiserver.Start(t, apiserver.Options{HTTP2: http2})
		fill(t, s, pod("a"), pod("b"))
		must(s.Inject(apiserver.Fault{Kind: apiserver.TruncateBody, Times: 1, Resource: "pods", Verb: "list"}))
		if list, err := clientset(t, s).CoreV1().Pods("default").List(t.Context(), listAll); err == nil {
			t.Errorf("HTTP2 %v: a truncated body was read as %d pods", http2, len(list.Items))
		}
	}
}

func TestL12_ATableIsSentOnlyOnRequest(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	fill(t, s, pod("a"))
	const table = "application/json;as=Table;v=v1;g=meta.k8s.io"
	if a := do(t, s, http.MethodGet, pods, "", "Accept", table+",application/json"); a.at("kind") != "Table" {
		t.Errorf("got %s", a.raw)
	}
	if a := do(t, s, http.MethodGet, pods, "", "Accept", "application/json,"+table); a.at("kind") != "PodList" {
		t.Errorf("got %s", a.raw)
	}
}

func TestL13_AFutureVersionIsAwaitedAndThenTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apiserver.Start(t, apiserver.Options{})
		began := time.Now()
		a := get(t, s, pods+"?resourceVersion=1000")
		a.refused(t, http.StatusGatewayTimeout, "Timeout", "Too large resource version")
		if !strings.Contains(a.raw, "ResourceVersionTooLarge") || a.header.Get("Retry-After") != "1" {
			t.Errorf("got %v %s", a.header, a.raw)
		}
		if waited := time.Since(began); waited != 3*time.Second {
			t.Errorf("waited %v", waited)
		}
		came := make(chan []string)
		go func() { came <- get(t, s, pods+"?resourceVersion=14").names() }()
		synctest.Wait()
		fill(t, s, pod("a")) // is 14
		if names := <-came; len(names) != 1 {
			t.Errorf("the list that waited has %v", names)
		}
	})
}

func TestListOptionsAreValidatedLikeTheRealServer(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	for query, want := range map[string]string{
		"resourceVersionMatch=Exact":                                                         "forbidden unless resourceVersion is provided",
		"resourceVersionMatch=Exact&resourceVersion=0":                                       "forbidden for resourceVersion",
		"resourceVersionMatch=Sometimes&resourceVersion=1":                                   "Unsupported value",
		"sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=1":         "forbidden for list",
		"watch=1&sendInitialEvents=true":                                                     "requires setting resourceVersionMatch",
		"watch=1&resourceVersionMatch=NotOlderThan&resourceVersion=1":                        "forbidden for watch unless sendInitialEvents",
		"watch=1&sendInitialEvents=true&resourceVersionMatch=Exact&allowWatchBookmarks=true": "requires setting resourceVersionMatch",
	} {
		get(t, s, pods+"?"+query).refused(t, http.StatusUnprocessableEntity, "Invalid", want)
	}
	// kubectl prefixes the message with the selectors.
	if got := get(t, s, pods+"?fieldSelector=spec.colour%3Dred").at("message"); got != "field label not supported: spec.colour" {
		t.Errorf("got %q", got)
	}
	for query, want := range map[string]string{
		"resourceVersion=x1":              "invalid resource version",
		"labelSelector=a+b":               "unable to parse requirement",
		"fieldSelector=spec.colour%3Dred": "field label not supported: spec.colour",
		"limit=many":                      "invalid syntax",
		"fieldSelector=justaword":         "invalid selector",
	} {
		get(t, s, pods+"?"+query).refused(t, http.StatusBadRequest, "BadRequest", want)
	}
	get(t, s, pods+"?watch=1&resourceVersion=-5").refused(t, http.StatusInternalServerError, "", `resourceVersion: Invalid value: "-5"`)
}

func TestListsApplySelectors(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	placed := pod("placed", "tier", "web")
	placed.Spec.NodeName = "n1"
	fill(t, s, placed, pod("other", "tier", "db"), pod("bare"))
	for query, want := range map[string]string{
		"labelSelector=tier":                                        "other placed",
		"labelSelector=tier+in+(web)":                               "placed",
		"labelSelector=!tier":                                       "bare",
		"fieldSelector=spec.nodeName%3Dn1":                          "placed",
		"fieldSelector=spec.nodeName!%3Dn1":                         "bare other",
		"fieldSelector=status.phase%3DPending,metadata.name%3Dbare": "bare",
		"fieldSelector=metadata.namespace%3Dkube-system":            "",
		"labelSelector=tier&limit=1":                                "other",
	} {
		if a := get(t, s, "/api/v1/pods?"+query); strings.Join(a.names(), " ") != want {
			t.Errorf("%s: got %v, want %s", query, a.names(), want)
		}
	}
	if a := get(t, s, "/api/v1/pods?labelSelector=tier&limit=1"); a.at("metadata", "remainingItemCount") != "" {
		t.Errorf("remainingItemCount is set with a selector: %s", a.raw)
	}
}

func TestNamespacesAreRanges(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{AnyNamespace: true})
	for _, ns := range []string{"a", "ab", "b"} {
		p := pod("in-" + ns)
		p.Namespace = ns
		fill(t, s, p)
	}
	if a := get(t, s, "/api/v1/namespaces/a/pods"); !slices.Equal(a.names(), []string{"in-a"}) {
		t.Errorf("got %v", a.names())
	}
	if a := get(t, s, "/api/v1/namespaces/ab/pods?limit=5"); !slices.Equal(a.names(), []string{"in-ab"}) {
		t.Errorf("got %v", a.names())
	}
	if a := get(t, s, "/api/v1/pods"); len(a.names()) != 3 {
		t.Errorf("got %v", a.names())
	}
}
