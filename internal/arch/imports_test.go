package arch

import (
	"go/token"
	"path"
	"slices"
	"strings"
)

// anything, in a row, lets a folder import every other one of ours.
const anything = "*"

// rooms is the folder of the packages that only the embedded server imports.
const rooms = "apiserver/internal/"

// table says which folders of ours each folder may import besides itself; a folder
// below another belongs to it, unless it has its own row. It stands for the whole design, so that a folder
// has its place before its first file. Test files are not bound by it.
//
// The folders in internal have no row: they may import anything and be imported by any
// folder. A folder that imports one counts as importing everything that it imports.
var table = map[string][]string{
	".":           {"object", "wire", "wire/stream", "reflector", "delta", "store", "informer", "workqueue", "controller", "controller/leader", "controller/recorder", "controller/shard", "status", "console", "console/metrics", "journal"},
	"object":      {},
	"wire":        {"object"},
	"wire/stream": {"object", "wire"},
	"reflector":   {"object", "delta"},
	"delta":       {"object"},
	"store":       {"object", "delta"},
	"informer":    {"object", "reflector", "delta", "store"},
	"journal":     {"object", "delta", "store"},
	"workqueue":   {},
	"controller":  {"object", "store", "informer", "workqueue"},
	// What a controller needs of the API itself, apart so that controller needs no client.
	"controller/leader":   {"object", "wire", "informer", "controller"},
	"controller/recorder": {"object", "wire"},
	"controller/shard":    {"object", "wire", "wire/stream", "informer", "controller"},
	"clientgo":            {anything},
	// A module of its own, so that nothing else depends on controller-runtime.
	"controllerruntime": {anything},
	// The embedded server must not share the client's codecs: an error could hide
	// on both sides.
	"apiserver": {"object", "journal", "apiserver/builtin", rooms + "apierror", rooms + "kinds", rooms + "storage", rooms + "codec", rooms + "access", rooms + "request", rooms + "response", rooms + "ownership", rooms + "admission", rooms + "registry", rooms + "discovery", rooms + "memory", rooms + "certificate", rooms + "recorded", rooms + "dump"},
	// The rooms of the server, lower ones first: the output of one is the input of the next.
	rooms + "apierror":    {},
	rooms + "special":     {},
	rooms + "kinds":       {"object", "apiserver/builtin", rooms + "apierror", rooms + "special"},
	rooms + "storage":     {"object", rooms + "apierror", rooms + "kinds"},
	rooms + "codec":       {rooms + "apierror", rooms + "kinds", rooms + "storage"},
	rooms + "table":       {rooms + "kinds", rooms + "storage", rooms + "codec"},
	rooms + "access":      {"object", rooms + "kinds", rooms + "storage"},
	rooms + "request":     {"object", rooms + "apierror", rooms + "kinds", rooms + "storage", rooms + "codec", rooms + "access"},
	rooms + "response":    {rooms + "apierror", rooms + "kinds", rooms + "storage", rooms + "codec", rooms + "table", rooms + "request"},
	rooms + "patch":       {rooms + "kinds"},
	rooms + "ownership":   {"apiserver/builtin", rooms + "apierror", rooms + "kinds"},
	rooms + "admission":   {"object", "apiserver/builtin", rooms + "kinds", rooms + "storage", rooms + "codec", rooms + "access", rooms + "request", rooms + "patch"},
	rooms + "registry":    {"object", "apiserver/builtin", rooms + "apierror", rooms + "special", rooms + "kinds", rooms + "storage", rooms + "codec", rooms + "access", rooms + "request", rooms + "response", rooms + "patch", rooms + "ownership", rooms + "admission"},
	rooms + "discovery":   {"apiserver/builtin", rooms + "apierror", rooms + "kinds", rooms + "codec", rooms + "response"},
	rooms + "dump":        {"object", rooms + "kinds"},
	rooms + "memory":      {},
	rooms + "certificate": {},
	rooms + "recorded":    {},
	// Defaults and validation of built-in kinds need no server.
	"apiserver/builtin": {"internal/cron"},
	// What enforces schemas is apart, so that only programs that ask for it link it.
	"apiserver/crd": {"apiserver"},
	// The stand-ins for Kubernetes' controllers are a Tarn program.
	"apiserver/workloads": {".", "apiserver", "controller", "store", "wire"},
	// What runs a controller in a test. Only tests import it.
	"tarntest": {".", "apiserver", "wire"},
	// The console shows all parts of the pipeline.
	"console": {"object", "wire", "wire/stream", "reflector", "delta", "store", "informer", "workqueue", "controller", "controller/leader", "controller/shard", "status"},
	"status":  {"object", "informer", "controller", "controller/leader", "controller/shard", "journal"},
	// The adapter to OpenTelemetry is apart, so that only programs that trace link it.
	"console/tracing": {"object", "wire", "controller"},

	"cmd/tarn":           {anything},
	"cmd/tarn-apiserver": {anything},
	// What users write.
	"examples": {anything},
	"e2e":      {anything},
	"bench":    {anything},
}

// bare lists the packages at the bottom, and the adapter to OpenTelemetry's API, and what they
// may import besides the standard library and our own.
var bare = map[string][]string{
	"object":    {"k8s.io/apimachinery"},
	"delta":     {"k8s.io/apimachinery"},
	"store":     {"k8s.io/apimachinery"},
	"workqueue": {"k8s.io/apimachinery", "golang.org/x/time/rate"},
	"console/tracing": {
		"go.opentelemetry.io/otel/trace", "go.opentelemetry.io/otel/attribute", "go.opentelemetry.io/otel/codes",
	},
}

// confined are packages that only some folders may import, in tests too.
var confined = []struct{ roots, folders []string }{
	// Tarn stands in for these; the folders adapt to them or measure against them.
	{[]string{"k8s.io/client-go/tools/cache", "k8s.io/client-go/util/workqueue"}, []string{"clientgo", "controllerruntime", "bench", "e2e", "examples/migrate"}},
	// kubectl's printers. Its flags would link kustomize.
	{[]string{"k8s.io/cli-runtime"}, []string{"internal/cli"}},
	// The code of kube-apiserver, with CEL, gRPC and OpenTelemetry behind it.
	{[]string{"k8s.io/apiextensions-apiserver", "k8s.io/apiserver"}, []string{"apiserver/crd"}},
}

// light are the parts of confined packages that link nothing besides apimachinery.
var light = map[string]bool{
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1": true,
	"k8s.io/apiserver/pkg/admission/plugin/webhook/errors":     true,
	"k8s.io/apiserver/pkg/authentication/serviceaccount":       true,
	"k8s.io/apiserver/pkg/endpoints/deprecation":               true,
	"k8s.io/apiserver/pkg/util/responsewriter":                 true,
}

// row returns the folder of the table that dir belongs to.
func row(dir string) (folder string, ok bool) {
	for folder = dir; folder != "."; folder = path.Dir(folder) {
		if _, ok := table[folder]; ok {
			return folder, true
		}
	}
	return ".", dir == "."
}

// within reports whether an import path or folder is root or below it.
func within(p, root string) bool {
	return p == root || strings.HasPrefix(p, root+"/")
}

// reached is an import, direct or through our internal packages.
type reached struct {
	path string
	via  string // " through …" for an indirect one
	file *file
	pos  token.Pos
}

// reach returns what the files of dir import, and what the internal packages among
// that import in turn, each import path once a file.
func (s *source) reach(packages map[string][]*file, dir string) []reached {
	var out []reached
	for _, f := range packages[dir] {
		seen := map[string]bool{}
		for p, spec := range f.imports {
			s.follow(packages, reached{path: p, file: f, pos: spec.Pos()}, seen, &out)
		}
	}
	return out
}

func (s *source) follow(packages map[string][]*file, r reached, seen map[string]bool, out *[]reached) {
	if seen[r.path] {
		return
	}
	seen[r.path] = true
	dir, ours := s.folderOf(r.path)
	if !ours || !within(dir, "internal") {
		*out = append(*out, r)
		return
	}
	if r.via == "" {
		r.via = " through " + dir
	} else {
		r.via += " and " + dir
	}
	for _, f := range packages[dir] {
		for p := range f.imports {
			s.follow(packages, reached{path: p, via: r.via, file: r.file, pos: r.pos}, seen, out)
		}
	}
}

func layers(s *source) {
	packages := s.packages()
	for dir, files := range packages {
		if within(dir, "internal") {
			continue
		}
		from, ok := row(dir)
		if !ok {
			s.report(files[0], files[0].Package, Layers, "the folder %s has no row in the table of internal/arch; add one, with what it may import", dir)
			continue
		}
		may := table[from]
		for _, r := range s.reach(packages, dir) {
			to, ours := s.folderOf(r.path)
			if !ours {
				continue
			}
			if folder, ok := row(to); ok {
				to = folder
			}
			if to == from || slices.Contains(may, anything) || slices.Contains(may, to) {
				continue
			}
			s.report(r.file, r.pos, Layers, "%s must not import %s%s; it may import %s", label(from), label(to), r.via, list(may))
		}
	}
}

func label(dir string) string {
	if dir == "." {
		return "the root package"
	}
	return dir
}

func list(folders []string) string {
	if len(folders) == 0 {
		return "none of our packages"
	}
	return strings.Join(folders, ", ")
}

func thirdParty(s *source) {
	packages := s.packages()
	for dir := range packages {
		from, _ := row(dir)
		allowed, ok := bare[from]
		if !ok {
			continue
		}
		for _, r := range s.reach(packages, dir) {
			first, _, _ := strings.Cut(r.path, "/")
			_, ours := s.folderOf(r.path)
			if ours || !strings.Contains(first, ".") {
				continue
			}
			if slices.ContainsFunc(allowed, func(root string) bool { return within(r.path, root) }) {
				continue
			}
			s.report(r.file, r.pos, ThirdParty, "%s must not import %s%s; it may import the standard library, %s", from, r.path, r.via, list(allowed))
		}
	}
}

func clientGo(s *source) {
	for _, f := range s.files {
		for _, c := range confined {
			if slices.ContainsFunc(c.folders, func(folder string) bool { return within(f.dir, folder) }) {
				continue
			}
			for p, spec := range f.imports {
				if !light[p] && slices.ContainsFunc(c.roots, func(root string) bool { return within(p, root) }) {
					s.report(f, spec.Pos(), ClientGo, "only %s may import %s", strings.Join(c.folders, " and "), p)
				}
			}
		}
	}
}

// stages are the folders of the pipeline in the order in which data passes them.
var stages = []string{"wire", "wire/stream", "reflector", "delta", "store", "informer", "workqueue", "controller"}

// picture holds the root package's comment against the tree: each stage has one
// line in the indented picture, in order.
func picture(s *source) {
	for _, f := range s.packages()["."] {
		if f.Doc == nil {
			continue
		}
		var order []string
		for _, line := range strings.Split(f.Doc.Text(), "\n") {
			words := strings.Fields(line)
			if strings.HasPrefix(line, "\t") && len(words) > 0 && slices.Contains(stages, words[0]) {
				order = append(order, words[0])
			}
		}
		if !slices.Equal(order, stages) {
			s.report(f, f.Package, Picture, "the picture shows the stages %q; want %q", order, stages)
		}
	}
}
