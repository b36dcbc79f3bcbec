# git on local repositories: everything that it does with files, locks, mappings and children.
set -u
exec 2>&1
export GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_DATE='2020-01-01T00:00:00Z' GIT_COMMITTER_DATE='2020-01-01T00:00:00Z' GIT_PAGER=cat
git config --global user.name Somebody
git config --global user.email some@example.org
git config --global init.defaultBranch main
git config --global advice.detachedHead false
git config --global gc.auto 0

git init -q project && cd project || exit 1
for i in {1..120}; do
    mkdir -p "s$((i % 7))"
    seq "$i" $((i + 400)) >"s$((i % 7))/f$i"
done
git add . && git commit -q -m 'first' && git log --oneline
git status --short
git ls-files | wc -l
for i in {1..10}; do
    echo "change $i" >>s1/f1
    mv "s2/f$((i * 7 + 2))" "s3/moved$i"
    git add -A
    git commit -q -m "change $i"
done
git log --oneline --stat | sha256sum
git rev-parse HEAD
git diff HEAD~3 --stat | tail -2
echo dirty >>s4/f4
rm s5/f5
: >new
chmod +x s6/f6
git status --short
git diff | sha256sum
git stash -q -u
git status --short
git stash pop -q
git status --short
git checkout -q -- .
rm new
git branch side HEAD~4
git switch -q side
echo side >side.txt
git add side.txt
git commit -q -m side
git merge -q main -m merged
git log --oneline --graph | head -6
git switch -q main
git rebase -q side
git rev-parse HEAD
git cherry-pick --allow-empty HEAD~1 >/dev/null 2>&1
echo $?
git cherry-pick --abort 2>/dev/null
git tag -a v1 -m one
git describe
git blame s1/f1 | tail -2 | cut -c1-12
git grep -c 'change 7'
git bisect start -q HEAD HEAD~3 >/dev/null 2>&1
git bisect reset -q >/dev/null 2>&1
git worktree add -q ../tree side 2>&1
git -C ../tree status --short --branch | head -1
git worktree remove ../tree
git gc -q --prune=now
git count-objects -v | grep -E '^(count|packs|in-pack)'
git fsck --full --strict 2>&1 | grep -v '^dangling'
git reflog | wc -l
git archive HEAD | tar -tf - | wc -l
cd ..
git clone -q project copy && git -C copy log --oneline | wc -l
git clone -q --no-hardlinks --bare project bare.git
git clone -q --depth 1 "file://$PWD/project" shallow
git -C shallow rev-list --count HEAD
cd copy && echo more >more && git add more && git commit -q -m more && git push -q ../bare.git HEAD:refs/heads/other && git -C ../bare.git log --oneline other | head -1
git fetch -q ../project main
git pull -q --ff-only ../project main
git rev-parse HEAD
git repack -adq
git verify-pack .git/objects/pack/*.idx && echo verified
git mv more less
git commit -qam renamed
git show --stat --format=%s | head -3
printf '#!/bin/sh\necho hook ran\n' >.git/hooks/pre-commit
chmod +x .git/hooks/pre-commit
echo z >z
git add z
git commit -q -m hooked
: >.git/index.lock
git add z
echo $?
rm .git/index.lock
git clean -fdxq
git reset -q --hard HEAD~1
git status --short
git apply <<'X'
--- a/s1/f1
+++ b/s1/f1
@@ -1,3 +1,3 @@
-1
+one
 2
 3
X
git diff --stat
cd ..
rm -rf project copy bare.git shallow
ls -A
