#!/bin/bash
# Tests the service on a booted machine, as root: installation by the steps of docs/service.md, reloads, kill -9,
# watchdog, stop, a full disk, a clock that is set, reboot, crash, removal. After each step no item may be lost or
# doubled, and no budget, spacing or Retry-After broken. CONTRIBUTING.md says how to run it.
set -u

if [ ! -r "${BOOT_TEST_LIB:-}" ]; then
    cat >&2 <<'NEEDS'
This script changes the machine that it runs on: its clock, its disk, its services. Run it as root in a machine that
was booted for it, with a tool that sets these variables:
  BOOT_TEST_LIB   a file of shell functions:
      check TEXT COMMAND…          prints a TAP line, and goes on if the command fails
      done_testing                 prints the plan and exits with 0, or with 1 if a check failed
      wait_until SECONDS COMMAND…  repeats the command until it succeeds
      is GOT WANT, prop UNIT NAME, logged UNIT REGEX [SINCE], now
      bt_reboot MARK, bt_crash MARK   reboot, or reset without a sync; the script is then run again from the top
  BOOT_TEST_MARK  empty at first, then what bt_reboot or bt_crash was given
  BOOT_TEST_IN    a folder with docs/, config/ and systemd/ of the repository, and the program as `tidewatch`
  BOOT_TEST_OUT   a folder for results, kept across boots
NEEDS
    exit 2
fi
# shellcheck source=/dev/null
. "$BOOT_TEST_LIB"

unit=tidewatch.service
config=/etc/tidewatch/tidewatch.toml
store=/var/lib/private/tidewatch/tidewatch.db
lib=/usr/local/lib/tidewatch-boot-test
filler=/var/tmp/tidewatch-boot-test.filler
in_progress=/run/tidewatch-boot-test.in-progress
frozen=/run/tidewatch-boot-test.frozen
two_hours=7200

pid() { prop "$unit" MainPID; }
is_active() { is "$(systemctl is-active "$unit")" active; }
is_another() { is_active && [ "$(pid)" != "$1" ]; }
judge() { python3 "$lib/judge.py" "$BOOT_TEST_OUT" "$@"; }
status() { prop "$unit" StatusText; }
status_has() { status | grep -iE -- "$1" || { status; return 1; }; }
status_has_not() { ! status | grep -iE -- "$1"; }
sound_store() { is "$(sqlite3 -readonly "$store" 'PRAGMA integrity_check')" ok; }
refused() {
    local text
    text=$(tidewatch probe "$1" 2>&1) && echo "the probe was sent" && return 1
    grep 'not now' <<< "$text" || { echo "$text"; return 1; }
}
more_events() { is "$(judge events "$1")" $(($2 + $3)); }
no_file() { for file; do [ ! -e "$file" ] || { echo "$file exists"; return 1; }; done; }

# A step begins: what follows is judged from here.
step() {
    step=$1
    since=$(judge now)
    last=$(judge last)
    echo "# $step (at $since)"
}

# Checks that every step ends with.
unharmed() {
    check "$step: sources are probed" wait_until 120 judge reached "$since" 2 steady page
    check "$step: the slow source is probed" wait_until 120 judge reached "$since" 1 slow
    check "$step: a spent budget stays spent" refused spent
    check "$step: no budget, spacing or Retry-After is broken" judge polite "$since"
    check "$step: no item is lost or doubled" judge complete steady slow page
    check "$step: each request is in the log of probes" judge recorded
    check "$step: durations, dates and gaps are right" judge sound "$last"
    check "$step: status shows the sources" tidewatch status
}

# The shell commands of a section of docs/service.md, up to a block that contains $2.
commands() {
    awk -v title="## $1" -v end="${2:-no end}" '
        /^## / { here = $0 == title }
        here && /^ *```sh$/ { block = 1; text = ""; next }
        block && /^ *```$/ { block = 0; if (index(text, end)) exit; printf "%s", text }
        block { text = text $0 "\n" }' "$BOOT_TEST_IN/docs/service.md"
}

# Stands in for the build and for the editor in the documented steps.
cargo() { install -D -m 0755 tidewatch target/release/tidewatch; }
editor() { install -m 0644 systemd/boot-test/tidewatch.toml "$1"; }
export -f cargo editor
follow() { (cd "$BOOT_TEST_IN" && bash -euc "$(commands "$@")"); }

# Sets the wall clock by seconds.
set_clock() {
    python3 -c 'import sys, time; time.clock_settime(time.CLOCK_REALTIME, time.time() + float(sys.argv[1]))' "$1"
}

fill_disk() {
    local left part=0
    while left=$(df --output=avail -B1 /var/lib/tidewatch/ | tail -n 1) && [ "$left" -gt 0 ]; do
        part=$((part + 1))
        fallocate -l "$left" "$filler.$part" || dd if=/dev/zero of="$filler.$part" bs=4096 status=none || break
    done
}
free_disk() { rm -f "$filler".*; }

install_server() {
    install -d "$lib"
    install -m 0644 "$BOOT_TEST_IN"/systemd/boot-test/*.py "$lib/"
    cat > /etc/systemd/system/tidewatch-boot-test.service <<UNIT
[Unit]
Before=$unit
[Service]
Type=notify
ExecStart=/usr/bin/python3 $lib/server.py $BOOT_TEST_OUT
[Install]
WantedBy=multi-user.target
UNIT
    systemctl daemon-reload
    systemctl enable --now tidewatch-boot-test
}

test_installation() {
    check "the server for the test runs" install_server
    step "installation"
    check "the documented steps install the service" follow Install journalctl
    check "it is active" wait_until 60 is_active
    check "it is enabled" is "$(systemctl is-enabled "$unit")" enabled
    check "its store belongs to it" test -s "$store"
    check "systemctl status shows the sources" wait_until 20 status_has 'watching 7 sources'
    check "every source is probed" wait_until 120 judge reached "$since" 1 steady limited slow page spent pair-a pair-b
    check "a budget is spent" wait_until 90 spend spent
    unharmed
}
spend() { tidewatch probe "$1"; judge spent "$1"; }

test_reload() {
    local before from
    step "good reload"
    before=$(pid)
    cat >> "$config" <<'TOML'
[[source]]
name = "added"
url = "http://127.0.0.1:8107/added"
policy = "uniform"
allow_private = true
budget = { probes = 6, per = "1m", min_spacing = "5s" }
TOML
    check "the documented steps reload it" follow 'Change the configuration'
    check "the added source is probed" wait_until 60 judge reached "$since" 1 added
    check "systemctl status shows eight sources" wait_until 20 status_has 'watching 8 sources'
    check "the process is the same" is "$(pid)" "$before"
    unharmed

    step "bad reload"
    from=$(now)
    cp "$config" "$config.good"
    echo 'colour = "green"' >> "$config"
    systemctl reload "$unit"
    check "the reload is refused in the journal" wait_until 30 logged "$unit" 'refused' "$from"
    check "systemctl status shows the refusal" wait_until 20 status_has 'refused'
    check "the process is the same after it" is "$(pid)" "$before"
    mv "$config.good" "$config"
    unharmed
    check "systemctl status shows the refusal until a good reload" status_has 'refused'
    check "the repaired file is loaded" systemctl reload "$unit"
    check "systemctl status shows no refusal" wait_until 20 status_has_not 'refused'
}

test_kill() {
    local before from
    step "kill -9"
    before=$(pid) from=$(now)
    kill -9 "$before"
    check "systemd starts it again" wait_until 60 is_another "$before"
    check "systemd logged the signal" logged "$unit" 'status=9/KILL' "$from"
    unharmed
    step "kill -9 during a probe"
    before=$(pid)
    check "a probe is in progress" wait_until 60 test -e "$in_progress"
    kill -9 "$before"
    check "systemd starts it again" wait_until 60 is_another "$before"
    unharmed
}

test_watchdog() {
    local before from
    step "watchdog"
    before=$(pid) from=$(now)
    kill -STOP "$before"
    check "a daemon that hangs is killed and started again" wait_until 150 is_another "$before"
    check "systemd logged the watchdog" logged "$unit" 'Watchdog timeout' "$from"
    unharmed
}

test_stop() {
    local before
    step "stop"
    before=$(judge events stopped)
    check "it stops" systemctl stop "$unit"
    check "it ends with success" is "$(prop "$unit" Result)/$(prop "$unit" ExecMainStatus)" success/0
    check "its store is one whole file" test ! -s "$store-wal"
    check "the stop is an event" more_events stopped "$before" 1
    check "its store is sound" sound_store
    step "start"
    check "it starts" systemctl start "$unit"
    unharmed
}

# The clock is set by $1 seconds while the daemon runs.
set_while_running() {
    local before
    step "clock set by $1 s while running"
    before=$(judge events clock_set)
    check "the clock is set by $1 s" set_clock "$1"
    check "$step: the correction is one event" wait_until 30 more_events clock_set "$before" 1
    unharmed
    check "$step: the correction stays one event" more_events clock_set "$before" 1
}

set_in_progress() {
    local before
    step "clock set by $1 s during a probe"
    before=$(judge events clock_set)
    check "$step: a probe is in progress" wait_until 60 test -e "$in_progress"
    check "the clock is set by $1 s" set_clock "$1"
    unharmed
    check "$step: the correction is one event" more_events clock_set "$before" 1
    step "restart after a clock set by $1 s during a probe"
    check "$step: it restarts" systemctl restart "$unit"
    unharmed
}

set_while_stopped() {
    local before
    step "clock set by $1 s while stopped"
    before=$(judge events clock_set)
    systemctl stop "$unit"
    check "the clock is set by $1 s" set_clock "$1"
    check "$step: it starts" systemctl start "$unit"
    unharmed
    check "$step: the correction is one event" more_events clock_set "$before" 1
    step "two restarts after a clock set by $1 s while stopped"
    check "$step: it restarts" systemctl restart "$unit"
    check "$step: it restarts again" systemctl restart "$unit"
    unharmed
    check "$step: the correction stays one event" more_events clock_set "$before" 1
}

test_clock() {
    set_while_running -$two_hours
    set_while_running $two_hours
    set_in_progress -$two_hours
    set_in_progress $two_hours
    set_while_stopped -$two_hours
    set_while_stopped $two_hours
}

test_full_disk() {
    local before from full='cannot be written|disk is full|no space'
    step "full disk while running"
    # A store that was just opened has a short WAL file, so the next commit needs space.
    systemctl restart "$unit"
    before=$(pid)
    check "the disk is full" fill_disk
    check "$step: systemctl status says so" wait_until 60 status_has "$full"
    sleep 2
    from=$(judge now)
    sleep 20
    check "$step: no probe is sent that cannot be logged" judge quiet "$from"
    check "$step: the process is the same" is "$(pid)" "$before"
    free_disk
    check "$step: systemctl status says no more" wait_until 60 status_has_not "$full"
    unharmed
    check "$step: the process is the same at the end" is "$(pid)" "$before"

    step "full disk at start"
    systemctl stop "$unit"
    fill_disk
    from=$(now)
    systemctl start --no-block "$unit"
    check "$step: the journal says so" wait_until 30 logged "$unit" "$full" "$from"
    before=$(pid)
    sleep 30
    check "$step: it waits, and does not end" is "$(pid)/$(prop "$unit" NRestarts)" "$before/0"
    check "$step: it can be stopped" systemctl stop "$unit"
    check "$step: the stop ends with success" is "$(prop "$unit" Result)" success
    systemctl start --no-block "$unit"
    sleep 5
    before=$(pid)
    free_disk
    check "$step: it goes on when there is space" wait_until 120 is_active
    check "$step: the process is the same" is "$(pid)" "$before"
    unharmed
}

# A source that is probed for the first time just before the machine crashes, and may not be probed again.
add_once() {
    cat >> "$config" <<'TOML'
[[source]]
name = "once"
url = "http://127.0.0.1:8107/once"
policy = "uniform"
allow_private = true
budget = { probes = 1, per = "1h", min_spacing = "5s" }
TOML
    # Before the daemon learns of it, so that nothing that the daemon writes is saved with it.
    sync "$config"
    systemctl reload "$unit"
}

test_removal() {
    local user
    step "removal"
    touch "$frozen"
    check "no item is lost or doubled in all" judge complete steady slow page added pair-a pair-b limited
    user=$(stat -c %u /var/lib/private/tidewatch)
    sqlite3 -readonly "$store" ".backup $BOOT_TEST_OUT/tidewatch.db"
    check "the documented steps remove the service" follow Remove
    check "nothing of it is left" no_file /etc/tidewatch /var/lib/tidewatch /var/lib/private/tidewatch \
        /usr/local/bin/tidewatch /etc/systemd/system/tidewatch.service
    check "systemd does not know it" is "$(prop "$unit" LoadState)" not-found
    check "no process of its user runs" is "$(pgrep -c -u "$user")" 0
}

case $BOOT_TEST_MARK in
'')
    test_installation
    test_reload
    test_kill
    test_watchdog
    test_stop
    test_full_disk
    test_clock
    bt_reboot rebooted
    ;;
rebooted)
    step "reboot"
    since=$(cat /run/tidewatch-boot-test.base)
    check "reboot: it starts with the machine" wait_until 60 is_active
    check "reboot: it was stopped before" grep -q 'Stopped\|Deactivated' <(journalctl -b -1 -u "$unit" -o cat)
    unharmed
    add_once
    check "crash: a new source is probed" wait_until 60 judge reached "$since" 1 once
    bt_crash crashed
    ;;
crashed)
    step "crash"
    since=$(cat /run/tidewatch-boot-test.base)
    check "crash: it starts with the machine" wait_until 60 is_active
    unharmed
    check "crash: its store is sound" sound_store
    check "crash: what was probed just before is not probed again" refused once
    test_removal
    done_testing
    ;;
esac
