package tarn

import (
	"log/slog"
	"reflect"
	"testing"
	"time"

	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/workqueue"
)

// A fleet's controller has the options of any other, except those that NewFleetController refuses.
func TestAFleetHasAllOptionsOfAController(t *testing.T) {
	full := controller.Options[Key]{
		Queue: workqueue.Options[Key]{
			AgeAfter: time.Second, Times: true, OnPanic: func(string, any) {},
		},
		Workers: 2, Attempts: 3, Timeout: 4, Rate: 5, Burst: 6, SyncTimeout: 7, Grace: 8, Errors: 9, Recent: -1,
		Observers: []controller.Observer{nil}, Logger: slog.Default(),
	}
	refused := map[string]bool{"Claims": true, "Limiter": true, "Group": true, "Dropped": true, "Metrics": true} // Metrics are set after
	var check func(path string, from, to reflect.Value)
	check = func(path string, from, to reflect.Value) {
		for i := range from.NumField() {
			name := from.Type().Field(i).Name
			switch {
			case refused[name]:
			case from.Field(i).IsZero():
				t.Errorf("the test does not set %s%s", path, name)
			case name == "Queue":
				check("Queue.", from.Field(i), to.Field(i))
			case to.Field(i).IsZero():
				t.Errorf("a fleet ignores %s%s", path, name)
			}
		}
	}
	check("", reflect.ValueOf(full), reflect.ValueOf(fleetOptions(full)))
}
