#!/usr/bin/env perl
# doc/HOUSE.md and doc/INDEX.md are true: every room of the library's source is on its floor there,
# every station `file:function` exists, `a` → `b` are caller and callee, a station further in is
# called from the line above, and the locks are those of the source in rising rank. README counts
# the tests.
use strict;
use warnings;

my $root = $ENV{JEMALLOC_SRC} // die "JEMALLOC_SRC is not set\n";
require "$root/test/demo/faults.pl";
chdir "$root/src" or die "$root/src: $!\n";
my $page = slurp('../doc/HOUSE.md') . slurp('../doc/INDEX.md');
my @files = map { s{^src/}{}r } split /\n/, `../scripts/tracked '^src/.*[.](c|h|cpp|in)\$'`;
my %text = map { $_ => slurp($_) } @files;

check('every room is on its floor in the table', map { "not there: $_" } rooms_missing());
check('no room is named that does not exist', map { "no such room: $_" } rooms_unknown());
check('every file named exists', map { "no such file: $_" } grep { !-e "$root/src/$_"
		    && !-e "$root/$_" } files_named());
my @lines = station_lines();
my $stations = 0;
$stations += @{ $_->{stations} } for @lines;
check("there are stations ($stations)", $stations > 60 ? () : 'too few');
check('every station exists',
	grep { defined } map { no_such($_) } map { @{ $_->{stations} } } @lines);
check('each is called from the one before', faults_along());
check('each line is called from the line above it', faults_inward());
check('every lock is in the table of locks, at its rank', lock_faults());
check('the ranks rise as in os/witness.h', rank_faults());
check('files that a head names as callers call', caller_faults());
check('the head of jeprof lists the packages of its rooms', package_faults());
check('README says how many test programs and scripts there are, 40 less at most', count_faults());
finish();

# Rows of the table of floors: folder of the floor => text of its rooms.
sub floors {
	my %rooms;
	$rooms{$1} .= $3 while $page =~ /^\| (\d+) \| ([^|]*) \| ([^|]*) \|$/mg;
	return \%rooms;
}

sub folder_floor {
	my ($file) = @_;
	my %floor = (util => 1, os => 2, meta => 3, hpa => 4, extent => 5, unwind => 5, arena => 6,
		thread => 7,
		'prof/sites' => 8, 'prof/file' => 9, 'prof/trigger' => 10, 'prof/control' => 11, prof => 12,
		conf => 13, ctl => 13);
	return $file =~ m{^(.*)/} ? $floor{$1} : 13;
}

sub rooms_missing {
	my $rooms = floors();
	my %missing;
	for my $file (grep { !/\.in$/ } @files) {
		my $name = $file =~ s/\.\w+$//r;
		$name =~ s{^(?!c(?:onf|tl)/).*/}{};
		my $floor = folder_floor($file);
		$missing{"$file on floor $floor"} = 1 if ($rooms->{$floor} // '') !~ /`\Q$name\E`/;
	}
	return sort keys %missing;
}

sub rooms_unknown {
	my $rooms = floors();
	my @unknown;
	for my $floor (sort keys %$rooms) {
		for my $name ($rooms->{$floor} =~ /`([\w\/]+)`/g) {
			push @unknown, "$name on floor $floor"
			    if !grep { folder_floor($_) == $floor && m{^(?:[\w/]+/)?\Q$name\E\.\w+$} } @files;
		}
	}
	return @unknown;
}

sub files_named {
	my %seen;
	return grep { !$seen{$_}++ } map { s/:.*//r } $page =~ /`([\w\/]+\.(?:c|h|cpp|t)(?::\w+)?)`/g;
}

# Items of lists that hold stations: how far in, and runs of stations joined by arrows.
sub station_lines {
	my @found;
	for my $line (split /\n/, $page) {
		my ($space) = $line =~ /^( *)(?:-|\d+\.) / or next;
		my @runs;
		while ($line =~ /(`[\w\/]+\.\w+:\w+`(?: → `[\w\/]+\.\w+:\w+`)*)/g) {
			push @runs, [$1 =~ /`([^`]+)`/g];
		}
		next if !@runs;
		push @found, { depth => length($space), runs => \@runs, stations => [map { @$_ } @runs] };
	}
	return @found;
}

# The text of a function, from its name to the brace that closes it.
sub body {
	my ($station) = @_;
	my ($file, $name) = split /:/, $station;
	return ($text{$file} // '') =~ /^\Q$name\E\((?:[^;{]*?)\)\s*(?:[A-Z]+\s*)?\{(.*?)^\}/ms ? $1
	    : undef;
}

sub name_of { return $_[0] =~ s/.*://r; }

sub no_such {
	my ($station) = @_;
	return defined body($station) ? undef : "$station is no function";
}

# A function may be reached through another of its own file that the page leaves out.
sub calls {
	my ($from, $to) = @_;
	my $body = body($from) // return 0;
	my $name = name_of($to);
	return 1 if $body =~ /\b\Q$name\E\b/;
	my $file = $from =~ s/:.*//r;
	my %called = map { $_ => 1 } $body =~ /\b([a-z_]\w*)\b/g;
	for my $helper (grep { $called{$_} } $text{$file} =~ /^([a-z_]\w*)\(/mg) {
		return 1 if $helper ne name_of($from) && (body("$file:$helper") // '') =~ /\b\Q$name\E\b/;
	}
	return 0;
}

sub faults_along {
	my @faults;
	for my $run (map { @{ $_->{runs} } } @lines) {
		for my $i (1 .. $#$run) {
			push @faults, "$run->[$i - 1] does not call $run->[$i]"
			    if !calls($run->[$i - 1], $run->[$i]);
		}
	}
	return @faults;
}

sub faults_inward {
	my (@faults, @above);
	for my $line (@lines) {
		pop @above while @above && $above[-1]{depth} >= $line->{depth};
		if ($line->{depth} > 0 && @above) {
			for my $run (@{ $line->{runs} }) {
				push @faults, "nothing above calls $run->[0]"
				    if !grep { calls($_, $run->[0]) } @{ $above[-1]{stations} };
			}
		}
		push @above, $line;
	}
	return @faults;
}

# Rows of the table of locks: name of a lock => ranks of its row. A room of the same name in another
# table does not count.
sub lock_rows {
	my %rows;
	while ($page =~ /^\| ([A-Z][A-Z_, ]+) \| ([^|]*) \|/mg) {
		my ($ranks, $locks) = ($1, $2);
		$rows{$_} = $ranks for $locks =~ /`(\w+)`/g;
	}
	return \%rows;
}

# Where a lock is made its name stands, and mostly its rank.
sub lock_faults {
	my ($rows, @faults, %names) = (lock_rows());
	for my $file (grep { !m{^os/(?:mutex|witness)} } @files) {
		while ($text{$file} =~ /(?:mutex_init|MUTEX_INITIALIZER|ecache_init|decay_init|prof_table_init)\([^;]*?"(\w+)"(?:,\s*WITNESS_RANK_(\w+))?/g) {
			my ($name, $rank) = ($1, $2);
			$names{$name} = 1;
			if (!$rows->{$name}) {
				push @faults, "not there: $name";
			} elsif (defined $rank && !grep { $_ eq $rank } split /, /, $rows->{$name}) {
				push @faults, "$name of rank $rank stands at $rows->{$name}";
			}
		}
	}
	return (@faults, map { "no such lock: $_" } grep { !$names{$_} } sort keys %$rows);
}

sub rank_faults {
	my %place;
	$place{$1} = keys %place while $text{'os/witness.h'} =~ /^\tWITNESS_RANK_(\w+)/mg;
	my ($last, @faults) = (-1);
	for my $row ($page =~ /^\| ([A-Z_, ]+) \| `/mg) {
		for my $rank (split /, /, $row) {
			next if $rank eq 'OMIT';
			push @faults, "no rank $rank" if !defined $place{$rank};
			push @faults, "$rank stands too late" if ($place{$rank} // $last) < $last;
			$last = $place{$rank} // $last;
		}
	}
	return @faults;
}

# ---- the heads of files

# The names that a module declares or defines for others.
sub names_of {
	my ($module, $code) = @_;
	my %names;
	for my $file (grep { defined $code->{$_} } "$module.h", "$module.c") {
		my $text = $code->{$file};
		$names{$1} = 1 while $text =~ /^(?![\s#])(?!static \w+$)[^\n;{}=]*?\b(\w+)\(/mg;
		$names{$1} = 1 while $text =~ /^(?!static )[^\n#]*\n(\w+)\(/mg;
		$names{$1} = 1 while $text =~ /^extern [^;]*?\b(\w+)(?:\[\w*\])*;/mg;
		$names{$1} = 1 while $text =~ /^#define (\w+)\(/mg;
	}
	return \%names;
}

# "Called by a.c and b.c": each uses a name of this module. A word is a file if it ends in .c, or if
# it has an underscore and a module has that name. A call by a pointer is said with the word hook or through.
sub caller_faults {
	my @all = split /\n/, `../scripts/tracked '^(src|bin)/.*[.](c|h)\$'`;
	my (%head, %code, %place, @faults);
	for my $file (@all) {
		my $text = slurp("../$file");
		($head{$file}) = $text =~ m{^/\*(.*?)\*/}s;
		$code{$file} = $text =~ s{/\*.*?\*/}{ }gsr =~ s/"(?:\\.|[^"\\\n])*"/""/gr;
		$place{$1}{$file} = 1 if $file =~ m{([^/]+)\.c$};
	}
	for my $file (@all) {
		my $words = ($head{$file} // '') =~ s/\n \* ?/ /gr;
		my $own = $file =~ s/\.[ch]$//r;
		my $names;
		while ($words =~ /(?:[Cc]alled by|Callers(?: are)?:?) ((?:[^.]|\.[ch]\b)*)\./g) {
			my $said = $1;
			next if $said =~ /\b(?:hook|through)\b/;
			my @named = $said =~ /\b(\w+)\.c\b/g;
			push @named, grep { $place{$_} } $said =~ /(?<!\/)\b([a-z]+(?:_[a-z]+)+)\b(?![.(])/g;
			$names //= names_of($own, \%code);
			for my $name (grep { $place{$_} } @named) {
				next if grep { my $text = $code{$_}; grep { $names->{$_} } $text =~ /\b(\w+)\b/g }
				    keys %{ $place{$name} };
				push @faults, "$file: \"Called by ... $name\": it calls nothing of it";
			}
		}
	}
	return @faults;
}

sub count_faults {
	my @programs = `../scripts/tracked '^test/(unit|integration|cross|misuse)/[^/]+[.](c|cpp)\$'`;
	my @scripts = `../scripts/tracked '^test/(?!include|stress|fuzz)[a-z]+/[^/]+[.](t|sh)\$'`;
	my $n = @programs + @scripts;
	my ($said) = slurp('../README.md') =~ /more than (\d+) test programs and scripts/;
	return defined $said && $said < $n && $said + 40 >= $n ? () : "there are $n";
}

sub package_faults {
	my (%listed, %there);
	for my $file (split /\n/, `../scripts/tracked '^bin/jeprof[.]d/.*[.]pl\$'`) {
		my $text = slurp("../$file");
		$there{$1} = 1 while $text =~ /^package (\w+);/mg;
		$listed{$_} = 1 for $file =~ /head\.pl$/
		    ? map { split /, /, $_ } $text =~ /^#   ((?:[A-Z]\w+(?:, )?)+)  /mg : ();
	}
	return ((map { "not listed: $_" } grep { !$listed{$_} } sort keys %there),
		map { "no such package: $_" } grep { !$there{$_} } sort keys %listed);
}
